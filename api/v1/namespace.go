package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
