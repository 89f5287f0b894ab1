package wording

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/netaddr"
)

// Refusal is why something is not done, and what to do about it.
type Refusal struct{ Reason, Remedy string }

func (r *Refusal) Error() string { return r.Reason }

// Hint returns the remedy.
func (r *Refusal) Hint() string { return r.Remedy }

// Adoption is the wish to make a host of an unknown machine.
type Adoption struct {
	Namespace string
	Name      string // "": that of the machine
	Image     string
	Labels    map[string]string
	// WithAddress gives the host the address from which the machine last asked.
	WithAddress bool
}

// Host returns the host that a machine becomes, or a *Refusal.
func (a *Adoption) Host(machine *v1.UnknownMachine) (*v1.BareMetalHost, error) {
	status := &machine.Status
	host := &v1.BareMetalHost{
		TypeMeta: metav1.TypeMeta{Kind: "BareMetalHost", APIVersion: v1.SchemeGroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.Namespace, Name: cmp.Or(a.Name, machine.Name), Labels: maps.Clone(a.Labels),
		},
		Spec: v1.BareMetalHostSpec{BootMACAddress: status.MAC, SystemUUID: status.SystemUUID, Image: a.Image},
	}
	if a.WithAddress && len(status.Addresses) > 0 {
		host.Spec.IP = status.Addresses[0]
	}
	if host.Spec.BootMACAddress == "" && host.Spec.IP == "" {
		return nil, &Refusal{fmt.Sprintf("the hardware address of the machine %s is unknown", machine.Name),
			"--with-address makes a host with the address from which it asked"}
	}
	return host, nil
}

// NoUUID says why a host gets no systemUUID although its machine reports one; "": nothing is known against it.
// others are all unknown machines, and hosts those with this UUID, as far as they may be read. Boards of one model may
// have the UUID of their vendor's template.
func NoUUID(machine *v1.UnknownMachine, others []v1.UnknownMachine, hosts []v1.BareMetalHost) string {
	uuid, why := machine.Status.SystemUUID, ""
	isSame := func(other v1.UnknownMachine) bool {
		return other.Name != machine.Name && netaddr.KeyOfUUID(other.Status.SystemUUID) == netaddr.KeyOfUUID(uuid)
	}
	other := slices.IndexFunc(others, isSame)
	switch {
	case uuid == "":
		return ""
	case netaddr.IsPlaceholderUUID(uuid):
		why = "many machines report it, since their vendor has set none of their own"
	case other >= 0:
		why = "UnknownMachine " + others[other].Name + " reports it too"
	case len(hosts) > 0:
		why = "BareMetalHost " + hosts[0].Namespace + "/" + hosts[0].Name + " has it"
	default:
		return ""
	}
	return "the host gets no systemUUID: the machine reports " + uuid + ", and " + why
}

// NoMachine is the refusal to adopt a machine that is not among the unknown ones.
func NoMachine(name string) *Refusal {
	return &Refusal{"there is no UnknownMachine " + name,
		"kubectl get um lists the machines that asked and are unknown; " +
			"the server removes one when a BareMetalHost has its MAC, or has its address and no MAC; " +
			"if its name is an address, also when the machine asks with its MAC, or as a known host"}
}

// HostExists is the refusal to adopt a machine as a host that is there already.
func HostExists(host *v1.BareMetalHost) *Refusal {
	return &Refusal{fmt.Sprintf("the BareMetalHost %s/%s exists already, and was not changed", host.Namespace, host.Name),
		"choose another --name, or add the address with kubectl edit bmh " + host.Name + " -n " + host.Namespace}
}
