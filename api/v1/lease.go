package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Lease is an IPv4 address that the server has given to a machine by DHCP (--dhcp-range). The server
// writes it, and clients may only read and delete it: the address is free then. Its name is the
// address with hyphens: 192-0-2-7. One that has ended is kept until another machine is given the
// address.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Lease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// status is who has the address, and until when.
	// +optional
	Status LeaseStatus `json:"status,omitempty"`
}

// States of a Lease.
const (
	// LeaseBound is the state of an address that a machine has until expires.
	LeaseBound = "Bound"
	// LeaseConflict is the state of an address that a machine uses without a lease. It is given to nobody until
	// expires.
	LeaseConflict = "Conflict"
)

// LeaseStatus is who has an address.
type LeaseStatus struct {
	// address is the IPv4 address.
	// +optional
	Address string `json:"address,omitempty"`
	// state is Bound, or Conflict for an address that a machine uses without a lease.
	// +optional
	State string `json:"state,omitempty"`
	// mac is the hardware address of the machine. It is empty where a machine has refused the
	// address, since another one uses it.
	// +optional
	MAC string `json:"mac,omitempty"`
	// host is the BareMetalHost, NAMESPACE/NAME, that the machine was at its last request.
	// +optional
	Host string `json:"host,omitempty"`
	// hostname is the host name that the machine claims.
	// +optional
	Hostname string `json:"hostname,omitempty"`
	// interface is the network interface of the server.
	// +optional
	Interface string `json:"interface,omitempty"`
	// renewed is the time of the last request for the address.
	// +optional
	Renewed metav1.Time `json:"renewed,omitempty"`
	// expires is the time when the address is free again.
	// +optional
	Expires metav1.Time `json:"expires,omitempty"`
}

// LeaseList is a list of Leases.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type LeaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Lease `json:"items"`
}
