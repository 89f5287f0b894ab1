package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Values of Event.Type.
const (
	EventNormal  = "Normal"
	EventWarning = "Warning"
)

// Event is a report of something that happened to an object. It has the fields of the core
// Event of Kubernetes, so that kubectl describe shows it. It expires after a day.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Event struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// involvedObject is the object that the event is about.
	InvolvedObject ObjectReference `json:"involvedObject"`
	// reason is the machine-readable reason, in CamelCase.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is the description for people.
	// +optional
	Message string `json:"message,omitempty"`
	// source is the component that reports the event.
	// +optional
	Source EventSource `json:"source,omitempty"`
	// firstTimestamp is the time of the first occurrence.
	// +optional
	FirstTimestamp metav1.Time `json:"firstTimestamp,omitempty"`
	// lastTimestamp is the time of the last occurrence.
	// +optional
	LastTimestamp metav1.Time `json:"lastTimestamp,omitempty"`
	// count is the number of occurrences.
	// +optional
	Count int32 `json:"count,omitempty"`
	// type is Normal or Warning.
	// +optional
	Type string `json:"type,omitempty"`
	// eventTime is the time of the first occurrence, in microseconds.
	// +optional
	EventTime metav1.MicroTime `json:"eventTime,omitempty"`
	// action is the action that was taken or that failed.
	// +optional
	Action string `json:"action,omitempty"`
	// reportingComponent is the name of the program that reports the event.
	// +optional
	ReportingController string `json:"reportingComponent"`
	// reportingInstance is the instance of that program.
	// +optional
	ReportingInstance string `json:"reportingInstance"`
}

// ObjectReference refers to an object.
type ObjectReference struct {
	// +optional
	Kind string `json:"kind,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	UID string `json:"uid,omitempty"`
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// +optional
	FieldPath string `json:"fieldPath,omitempty"`
}

// EventSource is the component that reports an event.
type EventSource struct {
	// +optional
	Component string `json:"component,omitempty"`
	// +optional
	Host string `json:"host,omitempty"`
}

// EventList is a list of Events.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type EventList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Event `json:"items"`
}
