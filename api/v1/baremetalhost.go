package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Values of BareMetalHostSpec.BootMode.
const (
	BootOnce    = "once"
	BootForever = "forever"
)

// AnnotationRearm on a BareMetalHost makes a machine with bootMode "once" boot its
// image once more: each new value counts once, such as the time.
const AnnotationRearm = "glowplug.dev/rearm"

// AnnotationIPXE on a Namespace is the iPXE script, a Go template, of the hosts
// in it that boot an image and have no spec.ipxe.
const AnnotationIPXE = "glowplug.dev/ipxe"

// ImageLocalBoot as a host's image means: boot the disk.
const ImageLocalBoot = "localboot"

// Values of BareMetalHostStatus.State.
const (
	StateAvailable    = "Available"
	StateBooting      = "Booting"
	StateProvisioning = "Provisioning"
	StateProvisioned  = "Provisioned"
	StateError        = "Error"
)

// ConditionIdentityUnique is False while another host claims one of this host's
// hardware or IP addresses.
const ConditionIdentityUnique = "IdentityUnique"

// ConditionConfigReadable is False while the Ignition in this host's image reads no
// form of its config.
const ConditionConfigReadable = "ConfigReadable"

// BareMetalHost is a machine: how it is recognised and what it boots.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type BareMetalHost struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// spec is how the machine is recognised and what it boots.
	// +optional
	Spec BareMetalHostSpec `json:"spec,omitempty"`
	// status is what was last seen of the machine. Written by the server alone.
	// +optional
	Status BareMetalHostStatus `json:"status,omitempty"`
}

// BareMetalHostSpec describes a machine.
type BareMetalHostSpec struct {
	// bootMACAddress is the hardware address of the NIC that the machine boots from.
	// +optional
	BootMACAddress string `json:"bootMACAddress,omitempty"`
	// ip is the machine's address.
	// +optional
	IP string `json:"ip,omitempty"`
	// hostname is the machine's name; metadata.name where it is empty.
	// +optional
	Hostname string `json:"hostname,omitempty"`
	// labels are matched by configs, over metadata.labels; at most 256.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// nics are the machine's further network cards, at most 1,000.
	// +optional
	// +listType=atomic
	NICs []NIC `json:"nics,omitempty"`
	// systemUUID is the SMBIOS system UUID.
	// +optional
	SystemUUID string `json:"systemUUID,omitempty"`
	// bootSources are CIDRs that the machine may also ask from: NAT, or the DHCP
	// range of another operating system; on the server's own network with its own
	// hardware addresses alone. At most 1,000.
	// +optional
	// +listType=atomic
	BootSources []string `json:"bootSources,omitempty"`
	// image is the ISCSICdrom to boot, as "name" or "namespace/name"; empty or
	// "localboot": the disk.
	// +optional
	Image string `json:"image,omitempty"`
	// bootMode is "once" (default: the image is booted until the machine is
	// provisioned) or "forever".
	// +optional
	BootMode string `json:"bootMode,omitempty"`
	// kernelArgs are this machine's own kernel arguments, at most 1,000.
	// +optional
	// +listType=atomic
	KernelArgs []string `json:"kernelArgs,omitempty"`
	// ipxe is this machine's own iPXE script, a Go text/template, in place of the
	// one that boots the image; a machine that boots its disk does not get it.
	// +optional
	IPXE string `json:"ipxe,omitempty"`
	// bmc is the machine's management controller.
	// +optional
	BMC *BMC `json:"bmc,omitempty"`
}

// NIC is a network card.
type NIC struct {
	// mac is the card's hardware address.
	// +optional
	MAC string `json:"mac,omitempty"`
	// ip is the card's address.
	// +optional
	IP string `json:"ip,omitempty"`
	// hostname is the name that the machine has on this card.
	// +optional
	Hostname string `json:"hostname,omitempty"`
}

// BMC is a management controller (IPMI, Redfish).
type BMC struct {
	// address is the controller's URL or address.
	// +optional
	Address string `json:"address,omitempty"`
	// username logs in to the controller.
	// +optional
	Username string `json:"username,omitempty"`
	// password logs in to the controller.
	// +optional
	Password string `json:"password,omitempty"`
}

// BareMetalHostStatus is what was last seen of a machine.
type BareMetalHostStatus struct {
	// state is Available, Booting, Provisioning, Provisioned or Error.
	// +optional
	State string `json:"state,omitempty"`
	// lastBoot is when the machine last began to boot, RFC 3339.
	// +optional
	LastBoot *metav1.Time `json:"lastBoot,omitempty"`
	// bootCount counts the boots seen.
	// +optional
	BootCount int64 `json:"bootCount,omitempty"`
	// lastConfig is the config last served, as namespace/name.
	// +optional
	LastConfig string `json:"lastConfig,omitempty"`
	// lastConfigHash is the hash of the bytes last served.
	// +optional
	LastConfigHash string `json:"lastConfigHash,omitempty"`
	// lastScript is when the machine was last given a boot script, RFC 3339.
	// +optional
	LastScript *metav1.Time `json:"lastScript,omitempty"`
	// rearmed is the value of the annotation glowplug.dev/rearm that was last
	// followed.
	// +optional
	Rearmed string `json:"rearmed,omitempty"`
	// bootRecord is the position in the boot log of the newest record that this
	// status includes. The server keeps it: a record is never applied twice.
	// +optional
	BootRecord int64 `json:"bootRecord,omitempty"`
	// lastSeen is when the machine last asked for anything.
	// +optional
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
	// conditions are the machine's conditions: IdentityUnique, ConfigReadable.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BareMetalHostList is a list of BareMetalHosts.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type BareMetalHostList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []BareMetalHost `json:"items"`
}

// EffectiveHostname is spec.hostname, or metadata.name where it is empty.
func (h *BareMetalHost) EffectiveHostname() string {
	if h.Spec.Hostname != "" {
		return h.Spec.Hostname
	}
	return h.Name
}
