package labtest

import v1 "glowplug/api/v1"

// The identities of machines, and Accept headers of Ignition.
const (
	MACA = "ac:1f:6b:8a:a7:9c" // of g10/builder1
	MACB = "ac:1f:6b:8a:a7:9d" // of g10/server1
	MACC = "ac:1f:6b:8a:a7:9e" // of g11/nat1
	MACD = "ac:1f:6b:8a:a7:9f" // of g10/macOnly
	MACX = "02:00:00:00:00:99" // of no host

	UUIDA = "4c4c4544-0042-3510-8056-b4c04f4e3132"
	UUIDX = "4c4c4544-0042-3510-8056-b4c04f4e3199"

	V34 = "application/vnd.coreos.ignition+json;version=3.4.0, */*;q=0.1"
	V33 = "application/vnd.coreos.ignition+json;version=3.3.0, */*;q=0.1"
)

// Story is the specification's: a builder, its target, a server's kickstart;
// and hosts that are harder to recognise.
func Story() *Lab {
	l := &Lab{}
	a := l.Host("g10", "builder1", MACA, "192.168.10.10", "role", "builder")
	a.Spec.SystemUUID = UUIDA
	a.Spec.Hostname = "builder1.lab"
	a.Spec.NICs = []v1.NIC{{MAC: "ac:1f:6b:8a:a7:aa", IP: "192.168.20.10", Hostname: "builder1-mgmt"}}
	l.Host("g10", "server1", MACB, "192.168.10.11", "role", "server")
	c := l.Host("g11", "nat1", MACC, "10.1.0.1")
	c.Spec.BootSources = []string{"172.16.0.0/24", "192.168.10.0/24"}
	l.Host("g10", "maconly", MACD, "", "role", "builder")
	l.Config("g10", "coreos-builder", "ignition", v1.IgnitionConfigSelector{MatchLabels: map[string]string{"role": "builder"}})
	l.Config("g10", "builder-target", "ignition", v1.IgnitionConfigSelector{})
	l.Config("g10", "fedora-server", "kickstart", v1.IgnitionConfigSelector{MatchLabels: map[string]string{"role": "server"}})
	return l
}

// StoryAnd returns Story with a change.
func StoryAnd(change func(*Lab)) func() *Lab {
	return func() *Lab { l := Story(); change(l); return l }
}

// WithNAT is Story with two hosts behind a router, of which one has a config.
var WithNAT = StoryAnd(func(l *Lab) {
	l.Host("g11", "nat2", "ac:1f:6b:8a:a7:a0", "10.1.0.2").Spec.BootSources = []string{"172.16.0.0/24"}
	l.Config("g11", "nat-config", "ignition", v1.IgnitionConfigSelector{MatchHostnames: []string{"nat1"}})
})

// WithImage adds a host that boots an image which names a config, and a default.
func WithImage(image, config string) func() *Lab {
	return StoryAnd(func(l *Lab) {
		l.Host("g10", "booter", "", "192.168.10.40").Spec.Image = image
		l.Config("g10", "fallback", "ignition", v1.IgnitionConfigSelector{Default: true})
		l.Config("g10", "live-config", "ignition", v1.IgnitionConfigSelector{})
		l.Image("g10", "live", config)
		l.Image("g11", "live", config)
		l.Image("g10", "localboot", config)
	})
}
