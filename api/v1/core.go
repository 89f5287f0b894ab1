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

// Phases of a namespace.
const (
	NamespaceActive      = "Active"
	NamespaceTerminating = "Terminating"
)

// FinalizerNamespace in spec.finalizers keeps a deleted namespace until it is empty.
const FinalizerNamespace = "kubernetes"

// NamespaceDefault is the namespace of objects that name none.
const NamespaceDefault = "default"

// Namespace is a scope for the names of objects. The server creates it with the first
// object in it.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Namespace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// spec has the finalizers. The server writes it.
	// +optional
	Spec NamespaceSpec `json:"spec,omitempty"`
	// status has the phase, and the progress of a deletion.
	// +optional
	Status NamespaceStatus `json:"status,omitempty"`
}

// NamespaceSpec has the finalizers of a namespace.
type NamespaceSpec struct {
	// finalizers keep a deleted namespace. The server sets "kubernetes" and removes it when
	// the namespace is empty.
	// +optional
	// +listType=atomic
	Finalizers []string `json:"finalizers,omitempty"`
}

// NamespaceStatus is the status of a namespace.
type NamespaceStatus struct {
	// phase is Active, or Terminating while the objects of a deleted namespace are deleted.
	// +optional
	Phase string `json:"phase,omitempty"`
	// conditions of a Terminating namespace say why it still exists:
	// NamespaceContentRemaining, NamespaceFinalizersRemaining and
	// NamespaceDeletionContentFailure.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NamespaceList is a list of Namespaces.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NamespaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Namespace `json:"items"`
}
