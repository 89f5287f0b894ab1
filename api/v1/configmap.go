package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConfigMap holds settings as keys and values, as in Kubernetes.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ConfigMap struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// immutable, once true, keeps data and binaryData from being changed: the object
	// can only be deleted.
	// +optional
	Immutable *bool `json:"immutable,omitempty"`
	// data are values that are UTF-8 text, by keys of letters, digits, "-", "_" and
	// ".", at most 256. No key of binaryData may be among them.
	// +optional
	Data map[string]string `json:"data,omitempty"`
	// binaryData are values that are any bytes, in base64, by at most 256 keys.
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
