package v1

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"glowplug/internal/domain/netaddr"
)

var meta = metav1.ObjectMeta{Name: "x", Namespace: "g10"}

func paths(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Field)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestOtherMACs: a network card may have an address that is none of Ethernet, and the machine boots from one of
// Ethernet.
func TestOtherMACs(t *testing.T) {
	for mac, isGood := range map[string]bool{
		"80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:31:78:f2": true,
		"00-02-C9-03-00-31-78-F2":                                     true,
		"20-00-02-c9-03-00-31-78-f2":                                  true,
		"00:02:c9:03:00:31:78":                                        false,
		"00:02:c9:03:00:31:78-f2":                                     false,
		"00:00:00:00:00:00:00:00":                                     false,
	} {
		host := &BareMetalHost{ObjectMeta: meta, Spec: BareMetalHostSpec{NICs: []NIC{{MAC: mac}}}}
		if errs := ValidateBareMetalHost(host); (len(errs) == 0) != isGood {
			t.Errorf("spec.nics[0].mac %s: %v", mac, errs)
		}
		host.Spec = BareMetalHostSpec{BootMACAddress: mac}
		errs := ValidateBareMetalHost(host)
		if len(errs) != 1 || strings.Contains(errs[0].Detail, "spec.nics") != netaddr.IsOtherMAC(mac) {
			t.Errorf("spec.bootMACAddress %s: %v", mac, errs)
		}
		config := &IgnitionConfig{ObjectMeta: meta, Spec: IgnitionConfigSpec{Type: TypeIgnition, Format: TypeIgnition,
			Config: "{}", Selector: IgnitionConfigSelector{MatchMACs: []string{mac}}}}
		if got := paths(ValidateIgnitionConfig(config)); !slices.Contains(got, "spec.selector.matchMACs[0]") {
			t.Errorf("matchMACs %s: errors in %v", mac, got)
		}
	}
}

func TestGoodObjects(t *testing.T) {
	host := &BareMetalHost{ObjectMeta: meta, Spec: BareMetalHostSpec{
		BootMACAddress: "aabb.ccdd.eeff", IP: "::ffff:192.0.2.1", Hostname: "Server_1.Example.org.",
		Labels:      map[string]string{"role": "builder", "example.org/rack": ""},
		NICs:        []NIC{{MAC: "aabbccddeeff"}, {IP: "2001:db8::1"}, {Hostname: "mgmt"}},
		SystemUUID:  "4C4C4544-0042-3510-8056-B4C04F4E3132",
		BootSources: []string{"10.0.0.0/8", "192.0.2.7"}, Image: "other/coreos", BootMode: BootForever,
		KernelArgs: []string{"console=ttyS0,115200n8", `dyndbg="file x +p"`},
		BMC:        &BMC{Address: "https://192.0.2.2/redfish", Username: "root", Password: "${any}thing"},
	}}
	if errs := ValidateBareMetalHost(host); len(errs) > 0 {
		t.Error(errs)
	}
	for _, image := range []string{"", ImageLocalBoot, "coreos", "ns/coreos"} {
		host.Spec.Image = image
		if errs := ValidateBareMetalHost(host); len(errs) > 0 {
			t.Error(errs)
		}
	}
	sources := []ISCSICdromSpec{
		{},
		{ISOFile: "fedora/43..iso"},
		{URL: "https://example.org/x.iso?a=b", SHA256: strings.Repeat("aB", 32)},
		{External: &ExternalTarget{Portal: "192.168.10.1", IQN: "iqn.2000-02.com.mikrotik:cdrom-coreos-live"}},
		{Stream: &StreamImage{Name: "stable"}},
		{External: &ExternalTarget{Portal: "[2001:db8::1]:3260", IQN: "eui.02004567A425678D", LUN: 3},
			Transport: TransportISCSI},
		{External: &ExternalTarget{Portal: "2001:db8::1", IQN: "naa.52004567BA64678D"}},
		{External: &ExternalTarget{Portal: "target.example:3260", IQN: "iqn.2000-02.com.example"}},
		{Description: "Fedora, für alle", Version: "43", KernelArgs: []string{"quiet",
			"inst.ks=${glowplug}/api/v1/kickstart"}, IgnitionConfig: "g10/builder", Transport: TransportHTTP,
			Access:            AccessHosts,
			CHAP:              &CHAP{Username: "u", Password: "p p", MutualUsername: "t", MutualPassword: "q q"},
			AllowedInitiators: []string{"iqn.2010-04.org.ipxe:server1"}},
	}
	for _, spec := range sources {
		if errs := ValidateISCSICdrom(&ISCSICdrom{ObjectMeta: meta, Spec: spec}); len(errs) > 0 {
			t.Errorf("%+v: %v", spec, errs)
		}
	}
	for _, pair := range [][2]string{{TypeIgnition, FormatButane}, {TypeIgnition, FormatIgnition}, {TypeKickstart,
		FormatKickstart}} {
		config := &IgnitionConfig{ObjectMeta: meta, Spec: IgnitionConfigSpec{Type: pair[0], Format: pair[1],
			Config: strings.Repeat("x", MaxConfigBytes), Selector: IgnitionConfigSelector{
				MatchMACs: []string{"AC:1F:6B:8A:A7:9C", "ac-1f-6b-8a-a7-9c"}, MatchIPs: []string{"192.168.10.10", "192.168.0.0/16",
					"2001:db8::/32"}, MatchHostnames: []string{"server1", "Server1.example.org"}}}}
		if errs := ValidateIgnitionConfig(config); len(errs) > 0 {
			t.Error(errs)
		}
	}
}

func TestBadPlaces(t *testing.T) {
	for _, file := range []string{"..", "a/..", "../a", "a//b", "/a", "./a", `a\b`, "a/\n", "a/", "${x}", "a\x00b",
		"\u2028"} {
		if got := paths(ValidateISCSICdrom(&ISCSICdrom{ObjectMeta: meta,
			Spec: ISCSICdromSpec{ISOFile: file}})); !slices.Equal(got, []string{"spec.isoFile"}) {
			t.Errorf("%q: %v", file, got)
		}
	}
	for _, portal := range []string{"a b", "192.0.2.1:0", "192.0.2.1:65536", "192.0.2.1:x", "0.0.0.0", "[::1", "a/b",
		"${x}"} {
		spec := ISCSICdromSpec{External: &ExternalTarget{Portal: portal, IQN: "iqn.2000-02.com.example"}}
		if got := paths(ValidateISCSICdrom(&ISCSICdrom{ObjectMeta: meta, Spec: spec})); !slices.Equal(got,
			[]string{"spec.external.portal"}) {
			t.Errorf("%q: %v", portal, got)
		}
	}
	for _, ref := range []string{"/", "a/", "/a", "a/b/c", "A", "..", "a b", "a.b/c"} {
		if got := paths(ValidateBareMetalHost(&BareMetalHost{ObjectMeta: meta,
			Spec: BareMetalHostSpec{Image: ref}})); !slices.Equal(got, []string{"spec.image"}) {
			t.Errorf("%q: %v", ref, got)
		}
	}
	for _, u := range []string{"https://user:hunter2@example.org/x", "https:///x", "x", "ftp://x/y"} {
		errs := ValidateISCSICdrom(&ISCSICdrom{ObjectMeta: meta, Spec: ISCSICdromSpec{URL: u, SHA256: strings.Repeat("0",
			64)}})
		if got := paths(errs); !slices.Equal(got, []string{"spec.url"}) || strings.Contains(errs.ToAggregate().Error(),
			"hunter2") {
			t.Errorf("%q: %v", u, errs)
		}
	}
}

func TestBootScripts(t *testing.T) {
	for script, want := range map[string]string{
		"": "", "{{.Sanboot}}": "", "{{range .Labels}}{{.}}{{end}}": "",
		"{{": "spec.ipxe", "{{range 1000}}{{end}}": "spec.ipxe", "{{.Password}}": "spec.ipxe",
	} {
		host := &BareMetalHost{ObjectMeta: meta, Spec: BareMetalHostSpec{IPXE: script}}
		if got := strings.Join(paths(ValidateBareMetalHost(host)), " "); got != want {
			t.Errorf("%q: %q", script, got)
		}
		namespace := &Namespace{ObjectMeta: metav1.ObjectMeta{Name: "g10",
			Annotations: map[string]string{AnnotationIPXE: script}}}
		if got := ValidateNamespace(namespace); (len(got) > 0) != (want != "") {
			t.Errorf("a namespace's %q: %v", script, got)
		}
	}
	host := &BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "g10",
		Annotations: map[string]string{AnnotationRearm: strings.Repeat("x", 129)}}}
	if errs := ValidateBareMetalHost(host); len(errs) != 1 {
		t.Error(errs)
	}
}

func TestKernelArgs(t *testing.T) {
	for _, arg := range []string{"a=${net0/mac}", "${", "$${glowplug}{x}", "${glow${glowplug}plug}", "a\nb", ""} {
		cdrom := &ISCSICdrom{ObjectMeta: meta, Spec: ISCSICdromSpec{KernelArgs: []string{arg}}}
		if got := paths(ValidateISCSICdrom(cdrom)); !slices.Equal(got, []string{"spec.kernelArgs[0]"}) {
			t.Errorf("%q: %v", arg, got)
		}
	}
	host := &BareMetalHost{ObjectMeta: meta,
		Spec: BareMetalHostSpec{KernelArgs: []string{"inst.ks=${glowplug}/api/v1/kickstart?x=${glowplug}"}}}
	if errs := ValidateBareMetalHost(host); len(errs) > 0 {
		t.Error(errs)
	}
}

func TestAnnotationSize(t *testing.T) {
	large := strings.Repeat("x", 300<<10)
	tests := []struct {
		name        string
		annotations map[string]string
		ok          bool
	}{
		{"none", nil, true},
		{"what kubectl applied", map[string]string{AnnotationLastApplied: large, "a": "b"}, true},
		{"something else", map[string]string{"a": large}, false},
		{"both", map[string]string{AnnotationLastApplied: large, "a": large}, false},
	}
	for _, test := range tests {
		host := &BareMetalHost{ObjectMeta: *meta.DeepCopy()}
		host.Annotations = test.annotations
		if got := len(ValidateBareMetalHost(host)) == 0; got != test.ok {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestDefaults(t *testing.T) {
	host, cdrom := &BareMetalHost{}, &ISCSICdrom{}
	SetDefaultsBareMetalHost(host)
	SetDefaultsISCSICdrom(cdrom)
	if host.Spec.BootMode != BootOnce || !*cdrom.Spec.ReadOnly || cdrom.Spec.Transport != TransportISCSI ||
		cdrom.Spec.Access != AccessAny {
		t.Errorf("%+v %+v", host.Spec, cdrom.Spec)
	}
}

func TestValidateStreamImage(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "g10", Name: "a"}
	for name, c := range map[string]struct {
		stream StreamImage
		rest   ISCSICdromSpec
		want   []string
	}{
		"all": {StreamImage{Name: "rhcos-4.8", Architecture: "s390x", Artifact: "metal", Format: "pxe",
			Update: "pinned", Release: "48.84.202109241901-0"}, ISCSICdromSpec{}, nil},
		"no name":        {StreamImage{}, ISCSICdromSpec{}, []string{"spec.stream.name"}},
		"a path":         {StreamImage{Name: "../x"}, ISCSICdromSpec{}, []string{"spec.stream.name"}},
		"dots":           {StreamImage{Name: ".."}, ISCSICdromSpec{}, []string{"spec.stream.name"}},
		"long":           {StreamImage{Name: strings.Repeat("x", 129)}, ISCSICdromSpec{}, []string{"spec.stream.name"}},
		"other artifact": {StreamImage{Name: "a", Artifact: "vmware"}, ISCSICdromSpec{}, []string{"spec.stream.artifact"}},
		"other format":   {StreamImage{Name: "a", Format: "raw.xz"}, ISCSICdromSpec{}, []string{"spec.stream.format"}},
		"other update":   {StreamImage{Name: "a", Update: "always"}, ISCSICdromSpec{}, []string{"spec.stream.update"}},
		"follow one": {StreamImage{Name: "a", Update: "follow", Release: "1"}, ISCSICdromSpec{},
			[]string{"spec.stream.release"}},
		"script":     {StreamImage{Name: "a", Release: "1\nshell"}, ISCSICdromSpec{}, []string{"spec.stream.release"}},
		"and a file": {StreamImage{Name: "a"}, ISCSICdromSpec{ISOFile: "a.iso"}, []string{"spec.stream"}},
		"and a URL": {StreamImage{Name: "a"}, ISCSICdromSpec{URL: "http://a/b", SHA256: strings.Repeat("0", 64)},
			[]string{"spec.stream"}},
		"and a target": {StreamImage{Name: "a"}, ISCSICdromSpec{External: &ExternalTarget{Portal: "a",
			IQN: "iqn.2000-02.com.a"}}, []string{"spec.external"}},
		"and a digest": {StreamImage{Name: "a"}, ISCSICdromSpec{SHA256: strings.Repeat("0", 64)}, []string{"spec.sha256"}},
		"pxe and CHAP": {StreamImage{Name: "a", Format: "pxe"}, ISCSICdromSpec{CHAP: &CHAP{Username: "a", Password: "b"}},
			[]string{"spec.chap"}},
		"pxe, initiators": {StreamImage{Name: "a", Format: "pxe"},
			ISCSICdromSpec{AllowedInitiators: []string{"iqn.2000-02.com.a"}}, []string{"spec.allowedInitiators"}},
		"pxe, arguments": {StreamImage{Name: "a", Format: "pxe"}, ISCSICdromSpec{KernelArgs: []string{"a=${glowplug}/x",
			"b|c"}}, []string{"spec.kernelArgs[1]"}},
		"iso, arguments": {StreamImage{Name: "a"}, ISCSICdromSpec{KernelArgs: []string{"b|c"}}, nil},
	} {
		spec := c.rest
		spec.Stream = &c.stream
		if got := paths(ValidateISCSICdrom(&ISCSICdrom{ObjectMeta: meta, Spec: spec})); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	a := &StreamImage{Name: "a"}
	if !a.SameRelease(&StreamImage{Name: "a", Update: "follow", Architecture: "x86_64"}) ||
		a.SameRelease(&StreamImage{Name: "b"}) ||
		a.SameRelease(&StreamImage{Name: "a", Release: "1"}) || a.SameRelease(nil) || !(*StreamImage)(nil).SameRelease(nil) {
		t.Error("SameRelease")
	}
}

// TestMissingFormatNamesThoseOfTheType: the remedy is one that the next write takes.
func TestMissingFormatNamesThoseOfTheType(t *testing.T) {
	for configType, want := range map[string]string{
		TypeIgnition: "want butane or ignition", TypeKickstart: "want kickstart", "": "want butane or ignition or kickstart",
	} {
		config := &IgnitionConfig{Spec: IgnitionConfigSpec{Type: configType, Config: "x"}}
		found := ValidateIgnitionConfig(config).Filter(func(err error) bool {
			return !strings.HasPrefix(err.Error(), "spec.format: ")
		})
		if len(found) != 1 || found[0].Detail != want {
			t.Errorf("type %q: %v; want %s", configType, found, want)
		}
	}
}
