package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConfigMap holds settings as keys and values, as in Kubernetes.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ConfigMap struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// immutable, once it is true, cannot be set to false, and data and binaryData cannot
	// change any more: the object can only be deleted.
	// +optional
	Immutable *bool `json:"immutable,omitempty"`
	// data are the values that are UTF-8 text, at most 256. Keys consist of letters,
	// digits, "-", "_" and ".", and are not keys of binaryData.
	// +optional
	Data map[string]string `json:"data,omitempty"`
	// binaryData are the values that are any bytes, in base64, at most 256.
	// +optional
	BinaryData map[string][]byte `json:"binaryData,omitempty"`
}

// ConfigMapList is a list of ConfigMaps.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ConfigMapList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []ConfigMap `json:"items"`
}

// NamespaceActive is the only phase of a namespace.
const NamespaceActive = "Active"

// NamespaceDefault is the namespace of objects that name none.
const NamespaceDefault = "default"

// Namespace is a scope for the names of objects. The server creates it with the first
// object in it.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Namespace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// spec is empty: a namespace has no settings.
	// +optional
	Spec NamespaceSpec `json:"spec,omitempty"`
	// status is always Active.
	// +optional
	Status NamespaceStatus `json:"status,omitempty"`
}

// NamespaceSpec is empty.
type NamespaceSpec struct{}

// NamespaceStatus is the status of a namespace.
type NamespaceStatus struct {
	// phase is Active.
	// +optional
	Phase string `json:"phase,omitempty"`
}

// NamespaceList is a list of Namespaces.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NamespaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Namespace `json:"items"`
}
