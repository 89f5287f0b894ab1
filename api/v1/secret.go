package v1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Types of Secrets, as in Kubernetes.
const (
	SecretOpaque           = "Opaque"
	SecretBasicAuth        = "kubernetes.io/basic-auth"
	SecretSSHAuth          = "kubernetes.io/ssh-auth"
	SecretTLS              = "kubernetes.io/tls"
	SecretDockerConfigJSON = "kubernetes.io/dockerconfigjson"
	SecretDockerConfig     = "kubernetes.io/dockercfg"
)

// Keys of Secrets with credentials: those of the type kubernetes.io/basic-auth, and beside them those of
// a target for mutual CHAP.
const (
	SecretUsername       = "username"
	SecretPassword       = "password"
	SecretMutualUsername = "mutualUsername"
	SecretMutualPassword = "mutualPassword"
)

// Secret holds confidential values by their keys, as in Kubernetes. Images and hosts name it for their
// credentials. Who may not read Secrets reads none of its values.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Secret struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// immutable, once it is true, cannot be set to false, and data cannot change any more: the
	// object can only be deleted.
	// +optional
	Immutable *bool `json:"immutable,omitempty"`
	// data are the values, in base64, at most 256 with together 1 MiB. Keys consist of letters,
	// digits, "-", "_" and ".".
	// +optional
	Data map[string][]byte `json:"data,omitempty"`
	// stringData are values as plain text. The server moves them to data, over values with the
	// same keys, and never returns them.
	// +optional
	StringData map[string]string `json:"stringData,omitempty"`
	// type says which keys data has: Opaque (any, the default), kubernetes.io/basic-auth,
	// kubernetes.io/ssh-auth, kubernetes.io/tls, kubernetes.io/dockerconfigjson,
	// kubernetes.io/dockercfg, or a name of your own. It cannot change.
	// +optional
	Type string `json:"type,omitempty"`
}

// SecretList is a list of Secrets.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type SecretList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Secret `json:"items"`
}

// SetDefaultsSecret sets the type, and moves stringData to data.
func SetDefaultsSecret(secret *Secret) {
	secret.Type = cmp.Or(secret.Type, SecretOpaque)
	if secret.Data == nil && len(secret.StringData) > 0 {
		secret.Data = map[string][]byte{}
	}
	for key, value := range secret.StringData {
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
}
