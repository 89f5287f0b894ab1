package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The outcomes of a boot.
const (
	// OutcomeBooting: the machine has received its script.
	OutcomeBooting = "Booting"
	// OutcomeProvisioning: it has received its config.
	OutcomeProvisioning = "Provisioning"
	// OutcomeProvisioned: it has reported that it is provisioned, or has gone on to boot its disk.
	OutcomeProvisioned = "Provisioned"
	// OutcomeLocalBoot: it boots its disk.
	OutcomeLocalBoot = "LocalBoot"
	// OutcomeFailed: it was shown why it cannot boot.
	OutcomeFailed = "Failed"
	// OutcomeAbandoned: its next boot began before it was provisioned.
	OutcomeAbandoned = "Abandoned"
)

// BootOutcomes are the outcomes of boots that have ended.
var BootOutcomes = []string{OutcomeProvisioned, OutcomeLocalBoot, OutcomeFailed, OutcomeAbandoned}

// The steps of a boot, in the order in which they usually come.
const (
	StepScript       = "Script"
	StepTargetLogin  = "TargetLogin"
	StepKernel       = "Kernel"
	StepInitrd       = "Initrd"
	StepRootfs       = "Rootfs"
	StepConfig       = "Config"
	StepHardware     = "Hardware"
	StepBootComplete = "BootComplete"
)

// BootSteps are the steps in that order.
var BootSteps = []string{
	StepScript, StepTargetLogin, StepKernel, StepInitrd, StepRootfs, StepConfig, StepHardware, StepBootComplete,
}

// Boot is one boot of a machine: what the machine said of itself, what it was given and why, and the steps
// that it reached. The server writes it, and clients may only read it. Its name is that of the host and the number
// of the boot: node-1.7. The newest boot of a host decides what the machine boots next.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Boot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// host is the BareMetalHost, which is in the same namespace. It is empty for an unknown machine, whose newest
	// boot is in the namespace default, with the name unknown_MACHINE.NUMBER.
	// +optional
	Host string `json:"host,omitempty"`
	// hostUID is the UID of the host: another host of the same name may have had earlier boots.
	// +optional
	HostUID types.UID `json:"hostUID,omitempty"`
	// number counts the boots of the hosts of that name. 0 is the state of a machine before its first boot.
	// +optional
	Number int64 `json:"number,omitempty"`
	// outcome is Booting, Provisioning, Provisioned, LocalBoot, Failed or Abandoned; "" before the first boot.
	// +optional
	Outcome string `json:"outcome,omitempty"`
	// reason says why the boot failed, or why the machine boots its disk.
	// +optional
	Reason string `json:"reason,omitempty"`
	// begun is the time of the first step.
	// +optional
	Begun *metav1.MicroTime `json:"begun,omitempty"`
	// ended is the time at which the machine was provisioned, failed, or was given its disk to boot, or at
	// which the next boot began.
	// +optional
	Ended *metav1.MicroTime `json:"ended,omitempty"`
	// client is the address that the machine asked from.
	// +optional
	Client string `json:"client,omitempty"`
	// userAgent is the User-Agent of the request for the config.
	// +optional
	UserAgent string `json:"userAgent,omitempty"`
	// facts are what the machine claimed, and what its config was matched with.
	// +optional
	Facts *BootFacts `json:"facts,omitempty"`
	// match says why the machine received its config.
	// +optional
	Match *BootMatch `json:"match,omitempty"`
	// config is the config that the machine received last.
	// +optional
	Config *BootConfig `json:"config,omitempty"`
	// image is the image in the script of the machine.
	// +optional
	Image *BootImage `json:"image,omitempty"`
	// kernelArguments are those that the machine was sent.
	// +optional
	KernelArguments string `json:"kernelArguments,omitempty"`
	// script is the hash of the script that the machine received, with marks for the token of the boot, and for the
	// names and passwords of a login.
	// +optional
	Script string `json:"script,omitempty"`
	// steps have the times at which the boot first reached them.
	// +optional
	// +listType=map
	// +listMapKey=name
	Steps []BootStep `json:"steps,omitempty"`
	// machine is the state of the machine, which decides its next boot.
	// +optional
	Machine MachineState `json:"machine,omitempty"`
}

// BootFacts are what identifies a machine.
type BootFacts struct {
	// foundBy is the fact that identifies the host: mac, ip, uuid, hostname, address or neighbor.
	// +optional
	FoundBy string `json:"foundBy,omitempty"`
	// claimed are the facts that the machine said of itself.
	// +optional
	Claimed map[string]string `json:"claimed,omitempty"`
	// believed are the facts that the config was matched with.
	// +optional
	Believed map[string]string `json:"believed,omitempty"`
}

// BootMatch says why a machine received its config.
type BootMatch struct {
	// tier is the rule that chose the config, as mac or default.
	// +optional
	Tier string `json:"tier,omitempty"`
	// reason is a sentence about it.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// BootConfig is a config that a machine received.
type BootConfig struct {
	// name is the IgnitionConfig, as namespace/name.
	Name string `json:"name"`
	// generation is that of the object.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// hash is that of the bytes that the machine received, with placeholders for the values of Secrets.
	// +optional
	Hash string `json:"hash,omitempty"`
	// version is the Ignition version of the bytes.
	// +optional
	Version string `json:"version,omitempty"`
}

// BootImage is an image that a machine boots.
type BootImage struct {
	// name is the ISCSICdrom, as namespace/name.
	Name string `json:"name"`
	// release is the version of the operating system.
	// +optional
	Release string `json:"release,omitempty"`
	// digest is the SHA-256 of the image.
	// +optional
	Digest string `json:"digest,omitempty"`
}

// BootStep is a step of a boot.
type BootStep struct {
	// name is Script, TargetLogin, Kernel, Initrd, Rootfs, Config, Hardware or BootComplete.
	Name string `json:"name"`
	// time is the time at which the boot first reached the step.
	Time metav1.MicroTime `json:"time"`
}

// MachineState is the part of a boot that decides the next one.
type MachineState struct {
	// state is Available, Booting, Provisioning, Provisioned or Error.
	// +optional
	State string `json:"state,omitempty"`
	// bootCount counts the boots of this host.
	// +optional
	BootCount int64 `json:"bootCount,omitempty"`
	// rearmed is the value of the annotation glowplug.dev/rearm that has taken effect last.
	// +optional
	Rearmed string `json:"rearmed,omitempty"`
	// lastBoot is the time at which the last boot began, lastScript that of the last script, and lastSeen
	// that of the last step.
	// +optional
	LastBoot *metav1.MicroTime `json:"lastBoot,omitempty"`
	// +optional
	LastScript *metav1.MicroTime `json:"lastScript,omitempty"`
	// +optional
	LastSeen *metav1.MicroTime `json:"lastSeen,omitempty"`
	// provisioning is the use of the time in which the machine receives its config.
	// +optional
	Provisioning *ProvisioningStatus `json:"provisioning,omitempty"`
}

// BootList is a list of Boots.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type BootList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Boot `json:"items"`
}
