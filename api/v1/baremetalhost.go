package v1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Values of BareMetalHostSpec.BootMode.
const (
	BootOnce    = "once"
	BootForever = "forever"
)

// Values of HostPXE.Style.
const (
	PXEStyleDirect = "direct"
	PXEStyleServer = "server"
)

// AnnotationRearm on a BareMetalHost makes a machine with bootMode "once" boot its image
// one more time. Each new value, such as the current time, takes effect once.
const AnnotationRearm = "glowplug.dev/rearm"

// AnnotationIPXE on a Namespace is the iPXE script (a Go template) for the hosts of the
// namespace that have no spec.ipxe, with an image or without one.
const AnnotationIPXE = "glowplug.dev/ipxe"

// ImageLocalBoot as spec.image of a host boots the machine from its disk.
const ImageLocalBoot = "localboot"

// Values of BareMetalHostStatus.State.
const (
	StateAvailable    = "Available"
	StateBooting      = "Booting"
	StateProvisioning = "Provisioning"
	StateProvisioned  = "Provisioned"
	StateError        = "Error"
)

// BareMetalHost is a machine: its identity and what it boots.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type BareMetalHost struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// spec is the identity of the machine and what it boots.
	// +optional
	Spec BareMetalHostSpec `json:"spec,omitempty"`
	// status is the last observed state of the machine. The server writes it; an administrator
	// can set all of it but conditions through the subresource.
	// +optional
	Status BareMetalHostStatus `json:"status,omitempty"`
}

// BareMetalHostSpec describes a machine.
type BareMetalHostSpec struct {
	// bootMACAddress is the hardware address of the NIC that the machine boots from.
	// +optional
	BootMACAddress string `json:"bootMACAddress,omitempty"`
	// ip is the IP address of the machine.
	// +optional
	IP string `json:"ip,omitempty"`
	// hostname is the host name of the machine. The default is metadata.name.
	// +optional
	Hostname string `json:"hostname,omitempty"`
	// labels are matched with the selectors of configs. They override metadata.labels. At
	// most 256.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// nics are the additional network cards of the machine, at most 1,000.
	// +optional
	// +listType=atomic
	NICs []NIC `json:"nics,omitempty"`
	// systemUUID is the SMBIOS system UUID of the machine.
	// +optional
	SystemUUID string `json:"systemUUID,omitempty"`
	// bootSources are additional CIDRs that requests of the machine may come from, such as
	// a NAT gateway or the DHCP range of an installer. On a network of the server itself,
	// the request must also come from a hardware address of this machine. At most 1,000.
	// +optional
	// +listType=atomic
	BootSources []string `json:"bootSources,omitempty"`
	// image is the ISCSICdrom that the machine boots, as "name" or "namespace/name". If it
	// is "localboot", or empty and neither the host nor its namespace has a script, the
	// machine boots its disk.
	// +optional
	Image string `json:"image,omitempty"`
	// bootMode is "once" (default) or "forever". With "once" the machine boots the image
	// until it is provisioned, and its disk afterwards.
	// +optional
	BootMode string `json:"bootMode,omitempty"`
	// kernelArgs are kernel arguments of this machine, which are added to those of the
	// image. At most 1,000.
	// +optional
	// +listType=atomic
	KernelArgs []string `json:"kernelArgs,omitempty"`
	// ipxe is an iPXE script (a Go text/template) of this machine. It replaces the script
	// that boots the image. A machine that boots its disk does not receive it.
	// +optional
	IPXE string `json:"ipxe,omitempty"`
	// rootDeviceHints name the disk on which the machine installs the system of a live image of CoreOS or Flatcar. Its
	// config is then for the installed system.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`
	// pxe is how the firmware of the machine is answered, if the server runs with --pxe-interface.
	// +optional
	PXE *HostPXE `json:"pxe,omitempty"`
	// bmc is the management controller of the machine.
	// +optional
	BMC *BMC `json:"bmc,omitempty"`
	// provisioning limits when and how often the machine receives its config.
	// +optional
	Provisioning *Provisioning `json:"provisioning,omitempty"`
}

// HostPXE is how the firmware of a machine is answered that boots from the network.
type HostPXE struct {
	// loader is the boot loader that the firmware is given, as glowplug boot-loaders lists it, such as
	// ipxe.efi for a machine whose own network driver fails. The default is iPXE for its firmware.
	// +optional
	Loader string `json:"loader,omitempty"`
	// style is "direct" (default), by which the offer names the loader, or "server", by which the
	// firmware asks for it at port 4011. Some firmware needs the latter.
	// +optional
	Style string `json:"style,omitempty"`
}

// NIC is a network card.
type NIC struct {
	// mac is the hardware address of the card: of Ethernet, or one of 8, 9 or 20 bytes, as of
	// InfiniBand, with colons or hyphens.
	// +optional
	MAC string `json:"mac,omitempty"`
	// ip is the IP address of the card.
	// +optional
	IP string `json:"ip,omitempty"`
	// hostname is the host name of the machine on this card.
	// +optional
	Hostname string `json:"hostname,omitempty"`
}

// BMC is a management controller (IPMI, Redfish).
type BMC struct {
	// address is the URL or the address of the controller.
	// +optional
	Address string `json:"address,omitempty"`
	// credentialsName is the Secret in the namespace of the host that has the user name and the
	// password, under the keys username and password, as in Metal3. The fields below are empty then.
	// +optional
	CredentialsName string `json:"credentialsName,omitempty"`
	// username is the user name for the controller.
	// +optional
	Username string `json:"username,omitempty"`
	// password is the password for the controller.
	// +optional
	Password string `json:"password,omitempty"`
}

// BareMetalHostStatus is the last observed state of a machine.
type BareMetalHostStatus struct {
	// state is Available, Booting, Provisioning, Provisioned or Error.
	// +optional
	State string `json:"state,omitempty"`
	// lastBoot is the time at which the server last gave the machine a script that boots its
	// image or its disk, in RFC 3339; repetitions of the firmware do not count. If it gives
	// the machine no scripts, it is that of the first config after two minutes without a
	// request. An error in place of a script begins no boot.
	// +optional
	LastBoot *metav1.Time `json:"lastBoot,omitempty"`
	// bootCount is the number of boots that began as lastBoot says.
	// +optional
	BootCount int64 `json:"bootCount,omitempty"`
	// lastConfig is the config that the machine last received, as namespace/name.
	// +optional
	LastConfig string `json:"lastConfig,omitempty"`
	// lastConfigHash is the hash of the bytes that the machine last received.
	// +optional
	LastConfigHash string `json:"lastConfigHash,omitempty"`
	// lastScript is the time at which the machine last received a boot script, in RFC
	// 3339. A script that only shows an error does not count.
	// +optional
	LastScript *metav1.Time `json:"lastScript,omitempty"`
	// rearmed is the last value of the annotation glowplug.dev/rearm that has taken
	// effect.
	// +optional
	Rearmed string `json:"rearmed,omitempty"`
	// armed is the time at which a new value of that annotation was written. Without one it is
	// the time at which the host was created.
	// +optional
	Armed *metav1.Time `json:"armed,omitempty"`
	// provisioning is the use of the time in which the machine receives its config, if
	// spec.provisioning or its namespace limits it.
	// +optional
	Provisioning *ProvisioningStatus `json:"provisioning,omitempty"`
	// lastSeen is the time of the last step of a boot: a boot script or a config that the machine got, or
	// a report that it is done. A script that only shows an error counts. It follows within seconds.
	// +optional
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
	// hardware is what is known of the hardware of the machine. The machine reports it to
	// /api/v1/hardware, or an administrator writes it from an inventory. glowplug plan reads the disks.
	// +optional
	Hardware *HardwareDetails `json:"hardware,omitempty"`
	// inspected is the time at which the machine reported its hardware.
	// +optional
	Inspected *metav1.Time `json:"inspected,omitempty"`
	// conditions are Ready, IdentityUnique, ConfigMatched, ImageReady and ConfigReadable.
	// A response of the API has all of them. DataPreserved is there as well once Ignition would
	// destroy data on the disks in hardware.
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

// EffectiveHostname returns spec.hostname, or metadata.name if that is empty.
func (h *BareMetalHost) EffectiveHostname() string {
	return cmp.Or(h.Spec.Hostname, h.Name)
}
