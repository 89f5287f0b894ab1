package model

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
)

// Boot is the newest boot of a host, as far as it decides the next one.
type Boot struct {
	// Host is the host, and UID its UID: a boot of another host of the same name decides nothing.
	Host Ref
	UID  string
	// Number counts the boots of the hosts of that name.
	Number int64
	// Progress is the state of the machine.
	Progress Progress
	// Config is the config that the machine received last, and Hash that of its bytes; zero: none.
	Config Ref
	Hash   string
	// Failed is true where the machine was shown why it cannot boot, or was refused its config.
	Failed bool
}

// strangers begins the names of unknown machines in their boots. With the underscore it is in no name of an object.
const strangers = "unknown_"

// Stranger returns the host that stands for an unknown machine in its boots.
func Stranger(machine string) *Host {
	return &Host{Ref: Ref{Namespace: metav1.NamespaceDefault, Name: strangers + machine}}
}

// MachineOf returns the name of the unknown machine that a host stands for.
func MachineOf(stranger Ref) string { return strings.TrimPrefix(stranger.Name, strangers) }

// IsStranger reports whether a host stands for an unknown machine.
func IsStranger(host Ref) bool { return strings.HasPrefix(host.Name, strangers) }

type storedBoot struct {
	HostUID string `json:"hostUID"`
	Number  int64  `json:"number"`
	Outcome string `json:"outcome"`
	Config  struct {
		Name string `json:"name"`
		Hash string `json:"hash"`
	} `json:"config"`
	Machine struct {
		State        string                 `json:"state"`
		BootCount    int64                  `json:"bootCount"`
		Rearmed      string                 `json:"rearmed"`
		LastBoot     time.Time              `json:"lastBoot"`
		LastScript   time.Time              `json:"lastScript"`
		LastSeen     time.Time              `json:"lastSeen"`
		Provisioning *v1.ProvisioningStatus `json:"provisioning"`
	} `json:"machine"`
}

// DecodeBoot reads a stored Boot, whose key is that of its host.
func DecodeBoot(object Stored) (Boot, error) {
	var stored storedBoot
	if err := read(object.Value, &stored); err != nil {
		return Boot{}, err
	}
	m := &stored.Machine
	return Boot{
		Host: object.Ref(), UID: stored.HostUID, Number: stored.Number, Config: refFrom(stored.Config.Name, ""),
		Hash: stored.Config.Hash, Failed: stored.Outcome == v1.OutcomeFailed, Progress: Progress{
			State: StateOf(m.State), Script: m.LastScript, Seen: m.LastSeen, Boot: m.LastBoot, Rearmed: m.Rearmed,
			Boots: m.BootCount, Window: WindowOf(m.Provisioning),
		},
	}, nil
}

// ConfigContent is the name under which the config of a boot is kept; "": it received none. The config is a part of it:
// whoever has written a hash into the status of a host reads nothing by it that another config or namespace has.
func ConfigContent(b *v1.Boot) string {
	if b.Config == nil || b.Config.Hash == "" {
		return ""
	}
	return "config/" + b.Config.Name + " " + b.Config.Hash
}

// ScriptContent is ConfigContent for the script of a boot, which is kept for its namespace.
func ScriptContent(b *v1.Boot) string {
	if b.Script == "" {
		return ""
	}
	return "script/" + b.Namespace + " " + b.Script
}

// Stored returns a state as a Boot has it.
func (p *Progress) Stored() v1.MachineState {
	return v1.MachineState{
		State: p.State, BootCount: p.Boots, Rearmed: p.Rearmed, LastBoot: micro(p.Boot), LastScript: micro(p.Script),
		LastSeen: micro(p.Seen), Provisioning: p.Window.Status(),
	}
}

func micro(t time.Time) *metav1.MicroTime {
	if t.IsZero() {
		return nil
	}
	return &metav1.MicroTime{Time: t}
}
