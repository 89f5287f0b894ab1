package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Member is a server of the store. Each server keeps one, which is named after its machine; with the
// embedded store it is the only one. The server writes it, and clients may only read and delete it:
// one that runs writes its own again. The Member of a server that has not been seen for 24 hours is
// removed.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Member struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// status is how the server is.
	// +optional
	Status MemberStatus `json:"status,omitempty"`
}

// States of a Member.
const (
	// MemberReady is the state of a server that answers machines and the API.
	MemberReady = "Ready"
	// MemberNotReady is that of one that runs, and whose /readyz fails for the reasons in errors.
	MemberNotReady = "NotReady"
	// MemberMissing is that of one that has not been seen for 30 seconds, although it was not stopped.
	MemberMissing = "Missing"
	// MemberStopped is that of one that was stopped.
	MemberStopped = "Stopped"
)

// MemberStates are the states of a Member.
var MemberStates = []string{MemberReady, MemberNotReady, MemberMissing, MemberStopped}

// MemberStatus is how a server is.
type MemberStatus struct {
	// id is what the server is known by among those of the store, as long as it keeps its data folder.
	// +optional
	ID string `json:"id,omitempty"`
	// state is Ready, NotReady (errors say why), Stopped, or Missing: another server has not seen it for
	// 30 seconds, although it was not stopped.
	// +optional
	State string `json:"state,omitempty"`
	// version is that of the program.
	// +optional
	Version string `json:"version,omitempty"`
	// address is the address of the server that others reach it at.
	// +optional
	Address string `json:"address,omitempty"`
	// http is the URL for machines; empty without plain HTTP.
	// +optional
	HTTP string `json:"http,omitempty"`
	// https is the URL for clients of the API and of the console, and for machines that fetch their config
	// over HTTPS; empty without --listen-tls.
	// +optional
	HTTPS string `json:"https,omitempty"`
	// portal is the address of the iSCSI target, host:port; empty without --iso-dir.
	// +optional
	Portal string `json:"portal,omitempty"`
	// store is where the objects are: Embedded or NATS.
	// +optional
	Store string `json:"store,omitempty"`
	// started is when the server was started.
	// +optional
	Started metav1.Time `json:"started,omitempty"`
	// lastSeen is when the server has written this, every 10 seconds and at once when something changes.
	// +optional
	LastSeen metav1.Time `json:"lastSeen,omitempty"`
	// storeLag is the number of changes that the store is known to have and that this server has not read.
	// +optional
	StoreLag int64 `json:"storeLag,omitempty"`
	// errors is what /readyz says fails, a sentence each.
	// +optional
	// +listType=atomic
	Errors []string `json:"errors,omitempty"`
	// leads is the work that this server alone does for all of them now.
	// +optional
	// +listType=set
	Leads []string `json:"leads,omitempty"`
	// lastBackup is when this server has made its last good backup; empty: it makes none.
	// +optional
	LastBackup *metav1.Time `json:"lastBackup,omitempty"`
	// images are those that this server offers over iSCSI, as namespace/name@version, at most 256. Servers with the same
	// entry, version and http offer the same bytes.
	// +optional
	// +listType=set
	Images []string `json:"images,omitempty"`
	// dataFree is what is free on the disk of the data folder, in bytes.
	// +optional
	DataFree *int64 `json:"dataFree,omitempty"`
	// imagesFree is what is free on the disk of --iso-dir, in bytes.
	// +optional
	ImagesFree *int64 `json:"imagesFree,omitempty"`
}

// MemberList is a list of Members.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type MemberList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Member `json:"items"`
}
