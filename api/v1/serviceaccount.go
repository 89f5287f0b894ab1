package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceAccount is the user that a program is, as in Kubernetes. Roles bind it by its name, and its
// tokens prove who the program is: "kubectl create token" and "glowplug token create" make them.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ServiceAccount struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

// ServiceAccountList is a list of ServiceAccounts.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ServiceAccountList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []ServiceAccount `json:"items"`
}

// Token is the record of a token of a ServiceAccount. The server writes it when it makes a token, and
// never stores the token itself. Deleting the record revokes the token.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Token struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec TokenSpec `json:"spec"`
	// +optional
	Status TokenStatus `json:"status,omitempty"`
}

// TokenSpec says for whom a token is, and how long it is valid. It never changes.
type TokenSpec struct {
	// serviceAccountName is the ServiceAccount in the same namespace.
	ServiceAccountName string `json:"serviceAccountName"`
	// serviceAccountUID is its UID: the token is not valid for a later account of the same name.
	ServiceAccountUID string `json:"serviceAccountUID"`
	// expirationTime is when the token becomes invalid.
	ExpirationTime metav1.Time `json:"expirationTime"`
	// sha256 is the SHA-256 of the token, in hexadecimal digits. A token has 256 random bits, so it
	// cannot be computed from its hash.
	SHA256 string `json:"sha256"`
	// seal is an HMAC of the record with a key that is derived from the key of the servers' CA. The
	// servers accept no record without it, so that who writes the store cannot add a token.
	Seal string `json:"seal"`
}

// TokenStatus is the use of a token.
type TokenStatus struct {
	// lastUsedTime is when the token was last used, at most five minutes behind.
	// +optional
	LastUsedTime *metav1.Time `json:"lastUsedTime,omitempty"`
	// lastUsedFrom is the address of the client then.
	// +optional
	LastUsedFrom string `json:"lastUsedFrom,omitempty"`
}

// TokenList is a list of Tokens.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type TokenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Token `json:"items"`
}
