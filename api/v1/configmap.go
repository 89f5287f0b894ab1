package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
