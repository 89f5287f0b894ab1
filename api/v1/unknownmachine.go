package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// UnknownMachine is a machine that asked the server and is no BareMetalHost. The server
// writes it, and clients may only read and delete it. Its name is the hardware address of the
// machine, or its IP address where no hardware address is known, with hyphens:
// 52-54-00-12-34-56, 192-0-2-7. It is removed when a BareMetalHost has that address, or has its
// IP address and no hardware address. The machine says of itself claimedMACs, hostnames,
// systemUUID, serial, manufacturer, product and architecture, and mac if neighborMAC is empty.
// All other values are what the server observes.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type UnknownMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// status is what the server has seen of the machine.
	// +optional
	Status UnknownMachineStatus `json:"status,omitempty"`
}

// UnknownMachineStatus is what the server has seen of a machine. Each list has at most 8
// values, and each value at most 128 bytes.
type UnknownMachineStatus struct {
	// adopt is the command that makes a BareMetalHost of the machine.
	// +optional
	Adopt string `json:"adopt,omitempty"`
	// mac is the hardware address of the machine.
	// +optional
	MAC string `json:"mac,omitempty"`
	// neighborMAC is the hardware address of the machine in the neighbour table of the server.
	// If it is empty, mac is only a claim of the machine.
	// +optional
	NeighborMAC string `json:"neighborMAC,omitempty"`
	// addresses are the newest addresses from which the machine asked, or which it claimed and
	// --identity-claims=trust accepts, the newest first.
	// +optional
	// +listType=atomic
	Addresses []string `json:"addresses,omitempty"`
	// firstSeen is the time of the first request.
	// +optional
	FirstSeen metav1.Time `json:"firstSeen,omitempty"`
	// lastSeen is the time of the last request.
	// +optional
	LastSeen metav1.Time `json:"lastSeen,omitempty"`
	// count is the number of requests for a boot script or a config, and of reports to
	// boot-complete and hardware, whatever the answer. A request is not counted if its mac, ip, uuid or
	// hostname was refused (403), nor if it was answered before the server looked for the
	// machine: 400, and 503 because of too many claims or before the server was ready. A
	// refused role is counted.
	// +optional
	Count int64 `json:"count,omitempty"`
	// requests are the endpoints that the machine asked: ipxe, ignition, kickstart, boot-complete,
	// hardware.
	// +optional
	// +listType=atomic
	Requests []string `json:"requests,omitempty"`
	// claimedMACs are hardware addresses that the machine claims beside its own, and those that
	// are none of Ethernet.
	// +optional
	// +listType=atomic
	ClaimedMACs []string `json:"claimedMACs,omitempty"`
	// hostnames are the host names that the machine claims.
	// +optional
	// +listType=atomic
	Hostnames []string `json:"hostnames,omitempty"`
	// systemUUID is the UUID of the machine's firmware.
	// +optional
	SystemUUID string `json:"systemUUID,omitempty"`
	// serial is the serial number of the machine.
	// +optional
	Serial string `json:"serial,omitempty"`
	// manufacturer is the manufacturer of the machine.
	// +optional
	Manufacturer string `json:"manufacturer,omitempty"`
	// product is the product name of the machine.
	// +optional
	Product string `json:"product,omitempty"`
	// architecture is the architecture of the machine, as iPXE names it.
	// +optional
	Architecture string `json:"architecture,omitempty"`
}

// UnknownMachineList is a list of UnknownMachines.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type UnknownMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []UnknownMachine `json:"items"`
}
