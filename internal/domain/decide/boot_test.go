package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/snapshot/labtest"
)

// uuidOfPrivate is that of the host whose image is for its hosts alone.
const uuidOfPrivate = "4c4c4544-0042-3510-8056-b4c04f4e3118"

// rack is hosts that boot in every way, and images of every kind.
func rack() *lab {
	l := &lab{}
	image := func(namespace, name string, change func(*v1.ISCSICdrom)) {
		l.Image(namespace, name, "")
		i := l.Images[len(l.Images)-1]
		i.Status.Phase, i.Status.TargetIQN = v1.PhaseReady, "iqn.2026-11.dev.glowplug:"+namespace+":"+name
		if change != nil {
			change(i)
		}
	}
	image("g10", "live", nil)
	image("g10", "router", func(i *v1.ISCSICdrom) {
		i.Status = v1.ISCSICdromStatus{}
		i.Spec.External = &v1.ExternalTarget{Portal: "192.168.10.1", IQN: "iqn.2000-02.com.mikrotik:cdrom-coreos-live"}
	})
	image("g10", "locked", func(i *v1.ISCSICdrom) { i.Spec.CHAP = &v1.CHAP{Username: "u", Password: "p"} })
	image("g10", "pending", func(i *v1.ISCSICdrom) { i.Status.Phase = v1.PhasePending })
	image("g10", "broken", func(i *v1.ISCSICdrom) {
		i.Status.Phase, i.Status.ErrorMessage = v1.PhaseError,
			"no ISO 9660 image"
	})
	image("default", "rescue", nil)
	image("g10", "private", func(i *v1.ISCSICdrom) { i.Spec.Access = v1.AccessHosts })
	image("g10", "odd", func(i *v1.ISCSICdrom) { i.Spec.Access = "written by hand" })
	host := func(n int, image string, change func(*v1.BareMetalHost)) {
		h := l.Host("g10", fmt.Sprint("h", n), fmt.Sprintf("52:54:00:00:00:%02x", n), fmt.Sprintf("192.168.10.%d", n))
		h.Spec.Image = image
		if change != nil {
			change(h)
		}
	}
	state := func(state string) func(*v1.BareMetalHost) {
		return func(h *v1.BareMetalHost) { h.Status.State = state }
	}
	host(1, "live", nil)
	host(2, "", nil)
	host(3, "localboot", func(h *v1.BareMetalHost) { h.Spec.IPXE = "shell" })
	host(4, "live", state(v1.StateBooting))
	host(5, "live", state(v1.StateProvisioning))
	host(6, "live", state(v1.StateProvisioned))
	host(7, "live", func(h *v1.BareMetalHost) { h.Spec.BootMode, h.Status.State = v1.BootForever, v1.StateProvisioned })
	host(8, "live", func(h *v1.BareMetalHost) {
		h.Status.State, h.Annotations = v1.StateProvisioned, map[string]string{v1.AnnotationRearm: "2"}
		h.Status.Rearmed = "1"
	})
	host(9, "live", func(h *v1.BareMetalHost) {
		h.Status.State, h.Annotations = v1.StateProvisioned, map[string]string{v1.AnnotationRearm: "1"}
		h.Status.Rearmed = "1"
	})
	host(10, "missing", nil)
	host(11, "pending", nil)
	host(12, "broken", nil)
	host(13, "router", nil)
	host(14, "default/rescue", nil)
	host(15, "", func(h *v1.BareMetalHost) { h.Spec.IPXE = "shell" })
	host(16, "live", func(h *v1.BareMetalHost) { h.Spec.KernelArgs = []string{"a=1"} })
	host(17, "locked", func(h *v1.BareMetalHost) { h.Spec.KernelArgs = []string{"a=1"} })
	host(18, "private", func(h *v1.BareMetalHost) {
		h.Status.State, h.Spec.SystemUUID = v1.StateProvisioned, uuidOfPrivate
		h.Spec.BootSources = []string{"10.0.0.0/8"}
	})
	return l
}

// provisioning is the progress of hosts that were given their configs.
type provisioning struct{}

func (provisioning) Progress(*model.Host) model.Progress {
	return model.Progress{State: v1.StateProvisioning}
}

func TestDecideBoot(t *testing.T) {
	inv := rack().Inventory(t)
	for n, want := range map[int]string{
		1: "g10/live", 2: "disk", 3: "disk", 4: "g10/live", 5: "disk", 6: "disk", 7: "g10/live", 8: "g10/live", 9: "disk",
		10: "503 there is no image g10/missing", 11: "503 image g10/pending is not ready yet",
		12: "503 image g10/broken cannot be booted: no ISO 9660 image", 13: "g10/router", 14: "default/rescue", 15: "script",
		16: "g10/live",
	} {
		d := New(Options{Inventory: inv})
		b := d.Boot(ask{Endpoint: IPXE, From: fmt.Sprintf("192.168.10.%d", n), UUID: uuidX}.Request(t))
		got := ""
		switch {
		case b.Err != nil:
			got = fmt.Sprint(b.Err.Kind.Status(), " ", b.Err.Sentence)
			if len(b.Notices) != 1 || b.Notices[0].Reason != ReasonImageUnavailable {
				t.Errorf("h%d: notices %v", n, b.Notices)
			}
		case b.Local:
			got = "disk"
		case b.Image != nil:
			got = b.Image.Ref.String()
		case b.Script != "":
			got = "script"
		}
		if !strings.HasPrefix(got, want) || b.Host == nil || b.Reason == "" {
			t.Errorf("h%d: %s; want %s (%+v)", n, got, want, b)
		}
		if b.Err == nil && len(b.Notices) > 0 {
			t.Errorf("h%d: a UUID that nobody has is no event here: %v", n, b.Notices)
		}
	}

	// What is remembered goes before the status.
	d := New(Options{Inventory: inv, Progress: provisioning{}})
	if b := d.Boot(ask{Endpoint: IPXE, From: "192.168.10.1"}.Request(t)); !b.Local {
		t.Errorf("%+v", b)
	}
	// The identity rules are those of configs.
	if b := d.Boot(ask{Endpoint: IPXE, From: "192.168.10.1", MAC: "52:54:00:00:00:02"}.Request(t)); b.Err == nil ||
		b.Err.Kind != fault.Refused {
		t.Errorf("%+v", b)
	}
	isolated := New(Options{Inventory: rack().Isolated(t)})
	if b := isolated.Boot(ask{Endpoint: IPXE, From: "192.168.10.14"}.Request(t)); b.Err == nil ||
		b.Err.Kind != fault.Refused {
		t.Errorf("%+v", b)
	}
	for policy, want := range map[*Decider]string{New(Options{Inventory: inv}): "g10/live g10/router default/rescue",
		isolated: "default/rescue"} {
		b := policy.Boot(ask{Endpoint: IPXE, From: "10.9.9.9"}.Request(t))
		var got []string
		for _, i := range b.Offer {
			got = append(got, i.Ref.String())
		}
		if strings.Join(got, " ") != want || b.Err != nil || b.Local || !slices.Contains(notices(b.Notices),
			ReasonUnknownHost) {
			t.Errorf("an unknown machine is offered %v, want %s: %+v", got, want, b)
		}
	}
}

// TestImageOfAnotherArchitecture: a machine gets the reason instead of an image of another
// architecture, with an event; an image or a machine of no known one is not refused.
func TestImageOfAnotherArchitecture(t *testing.T) {
	l := rack()
	for _, i := range l.Images {
		switch i.Name {
		case "live":
			i.Status.Architectures = []string{"x86_64"}
		case "locked":
			i.Status.Architectures = []string{"aarch64", "x86_64"}
		}
	}
	l.Hosts[0].Labels = map[string]string{"kubernetes.io/arch": "arm64"}
	d := New(Options{Inventory: l.Inventory(t)})
	for _, c := range []struct {
		host int
		arch string
		want string
	}{
		{4, "x86_64", ""},
		{4, "i386", ""}, // iPXE for BIOS
		{4, "", ""},
		{4, "aarch64", "image g10/live is for x86_64, and this machine is aarch64; give it an image for aarch64"},
		{1, "", "image g10/live is for x86_64, and this machine is aarch64; give it an image for aarch64"},
		{1, "x86_64", ""}, // the machine knows it better than its label
		{17, "aarch64", ""},
		{17, "riscv64", "image g10/locked is for aarch64 and x86_64, and this machine is riscv64; give it an image for riscv64"},
		{13, "aarch64", ""}, // not known of an external target
		{14, "aarch64", ""},
		{6, "aarch64", ""}, // it boots its disk
	} {
		b := d.Boot(ask{Endpoint: IPXE, From: fmt.Sprintf("192.168.10.%d", c.host), Arch: c.arch}.Request(t))
		got := ""
		if b.Err != nil {
			got = b.Err.Sentence
			if b.Err.Kind != fault.Unavailable || len(b.Notices) != 1 || b.Notices[0].Reason != ReasonImageUnavailable ||
				b.Notices[0].Message != got {
				t.Errorf("h%d with %q: %v, notices %v", c.host, c.arch, b.Err.Kind, b.Notices)
			}
		}
		if got != c.want {
			t.Errorf("h%d with %q: %q, want %q", c.host, c.arch, got, c.want)
		}
	}
	for machine, want := range map[string]string{"": "g10/live g10/router default/rescue", "aarch64": "g10/router default/rescue"} {
		var got []string
		for _, i := range d.Boot(ask{Endpoint: IPXE, From: "10.9.9.9", Arch: machine}.Request(t)).Offer {
			got = append(got, i.Ref.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("an unknown machine with %q is offered %v, want %s", machine, got, want)
		}
	}
}

func TestNamespaceScript(t *testing.T) {
	inv := rack().Inventory(t)
	inv.Namespaces().Load(nil)
	inv.Namespaces().Put(labtest.Item("g10",
		`{"metadata":{"name":"g10","annotations":{"other":"x","glowplug.dev/ipxe":"{{.Sanboot}}"}}}`))
	d := New(Options{Inventory: inv})
	// With the script of its namespace, h2 boots without an image; h3 boots its disk, and h6 is provisioned.
	for n, want := range map[int]string{1: "{{.Sanboot}}", 2: "{{.Sanboot}}", 3: "", 6: "", 15: "shell"} {
		b := d.Boot(ask{Endpoint: IPXE, From: fmt.Sprintf("192.168.10.%d", n)}.Request(t))
		if b.Script != want || b.OfNamespace != (n <= 2) || b.Local != (want == "") {
			t.Errorf("h%d: %q, of its namespace: %t, disk: %t", n, b.Script, b.OfNamespace, b.Local)
		}
	}
	inv.Namespaces().Delete("g10", 3)
	if b := d.Boot(ask{Endpoint: IPXE, From: "192.168.10.1"}.Request(t)); b.Script != "" {
		t.Errorf("after the namespace is gone: %q", b.Script)
	}
}

func TestDecideImage(t *testing.T) {
	live, locked := model.Ref{Namespace: "g10", Name: "live"}, model.Ref{Namespace: "g10", Name: "locked"}
	private := model.Ref{Namespace: "g10", Name: "private"}
	for _, c := range []struct {
		name    string
		ask     ask
		policy  Policy
		ref     model.Ref
		proven  bool
		status  int
		args    string
		notices string
	}{
		{"its own", ask{From: "192.168.10.1"}, Policy{}, live, false, 200, "", ""},
		{"with its own arguments", ask{From: "192.168.10.16"}, Policy{}, live, false, 200, "a=1", ""},
		{"another's", ask{From: "192.168.10.13"}, Policy{}, live, false, 200, "", ""},
		{"an unknown machine", ask{From: "10.9.9.9"}, Policy{}, live, false, 200, "", ""},
		{"isolated", ask{From: "10.9.9.9"}, Policy{}, live, false, 404, "", ""},
		{"isolated, its own", ask{From: "192.168.10.1"}, Policy{}, live, false, 200, "", ""},
		{"with a password, over HTTP", ask{From: "192.168.10.1"}, Policy{}, locked, false, 403, "", ""},
		{"with a password, by an admin", ask{Believed: true}, Policy{}, locked, false, 200, "", ""},
		{"with a password, its own", ask{From: "192.168.10.17"}, Policy{}, locked, false, 200, "a=1", ""},
		{"with a password, over iSCSI", ask{From: "192.168.10.1"}, Policy{}, locked, true, 200, "", ""},
		{"not ready", ask{From: "192.168.10.1"}, Policy{}, model.Ref{Namespace: "g10", Name: "pending"}, false, 503, "",
			ReasonImageUnavailable + " g10/h1"},
		{"external", ask{From: "192.168.10.1"}, Policy{}, model.Ref{Namespace: "g10", Name: "router"}, false, 404, "", ""},
		{"none", ask{From: "192.168.10.1"}, Policy{}, model.Ref{Namespace: "g10", Name: "none"}, false, 404, "", ""},
		{"for its hosts, one of them", ask{From: "192.168.10.18"}, Policy{}, private, false, 200, "", ""}, // provisioned, too
		{"for its hosts, another", ask{From: "192.168.10.1"}, Policy{}, private, false, 403, "", ""},
		{"for its hosts, another over iSCSI", ask{From: "192.168.10.1"}, Policy{}, private, true, 403, "", ""},
		{"for its hosts, an unknown machine", ask{From: "10.9.9.9"}, Policy{}, private, true, 403, "", ""},
		{"for its hosts, one by its MAC", ask{From: "10.9.9.9", Neighbor: "52:54:00:00:00:12"}, Policy{}, private, true, 200,
			"", ""},
		{"for its hosts, one of them behind NAT", ask{From: "10.9.9.9", UUID: uuidOfPrivate}, Policy{}, private, true, 200,
			"", ""},
		{"for its hosts, by a claim from elsewhere", ask{From: "172.16.0.9", UUID: uuidOfPrivate}, Policy{}, private, true,
			403, "", ReasonClaimRefused + " g10/h18"},
		{"for its hosts, an admin", ask{Believed: true}, Policy{}, private, false, 200, "", ""},
		{"for its hosts, isolated", ask{From: "10.9.9.9"}, Policy{}, private, false, 404, "", ""},
		{"of no access that is known", ask{From: "192.168.10.1"}, Policy{}, model.Ref{Namespace: "g10", Name: "odd"},
			false, 403, "", ""},
		{"a claim that does not hold", ask{From: "192.168.10.1", MAC: "52:54:00:00:00:10"}, Policy{}, live, false, 403, "",
			ReasonClaimRefused + " g10/h16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inv := rack().Inventory(t)
			if strings.Contains(c.name, "isolated") {
				inv = rack().Isolated(t)
			}
			i := New(Options{Inventory: inv, Policy: c.policy}).Image(c.ask.Request(t), c.ref, c.proven)
			status := 200
			if i.Err != nil {
				status = i.Err.Kind.Status()
			}
			if got := strings.Join(notices(i.Notices), " "); got != c.notices {
				t.Errorf("notices: %s", got)
			}
			if status != c.status || strings.Join(i.Args, " ") != c.args {
				t.Errorf("%d, %v: %+v", status, i.Args, i)
			}
		})
	}
	d := New(Options{Inventory: rack().Inventory(t)})
	if i := d.Target(ask{From: "192.168.10.16"}.Request(t), "IQN.2026-11.dev.glowplug:g10:live"); i.Err != nil ||
		i.Image.Ref != live || len(i.Args) != 1 {
		t.Errorf("%+v", i)
	}
	if i := d.Target(ask{From: "192.168.10.16"}.Request(t), ""); i.Err == nil {
		t.Errorf("%+v", i)
	}
}

// What a machine merely says does not make it a host by the network, and neither does an
// address behind which there is another card.
func TestByNetwork(t *testing.T) {
	inv := rack().Inventory(t)
	for _, c := range []struct {
		name   string
		ask    ask
		policy Policy
		host   string
		want   bool
	}{
		{"by its address", ask{From: "192.168.10.18"}, Policy{}, "g10/h18", true},
		{"by its address, saying so", ask{From: "192.168.10.18", UUID: uuidOfPrivate}, Policy{}, "g10/h18", true},
		{"by its card", ask{From: "172.16.0.9", Neighbor: "52:54:00:00:00:12"}, Policy{}, "g10/h18", true},
		{"by both", ask{From: "192.168.10.18", Neighbor: "52:54:00:00:00:12"}, Policy{}, "g10/h18", true},
		{"by a claim from its bootSources", ask{From: "10.9.9.9", UUID: uuidOfPrivate}, Policy{}, "g10/h18", false},
		{"by a claim that is trusted", ask{From: "172.16.0.9", UUID: uuidOfPrivate}, Policy{Claims: identity.Trust},
			"g10/h18", false},
		{"its address, another card", ask{From: "192.168.10.18", Neighbor: "52:54:00:00:00:99"}, Policy{}, "g10/h18", false},
		{"unknown", ask{From: "172.16.0.9"}, Policy{}, "", false},
	} {
		i := New(Options{Inventory: inv, Policy: c.policy}).Target(c.ask.Request(t), "iqn.2026-11.dev.glowplug:g10:live")
		host := ""
		if i.Host != nil {
			host = i.Host.Ref.String()
		}
		if host != c.host || i.ByNetwork != c.want {
			t.Errorf("%s: host %q, by the network %v", c.name, host, i.ByNetwork)
		}
	}
}

// TestAdvance is the table of steps; each begins a minute after the one before
// unless it says otherwise.
func TestAdvance(t *testing.T) {
	once := &model.Host{}
	forever := &model.Host{Boot: &model.HostBoot{Forever: true}}
	type step struct {
		step  Step
		after time.Duration
		state string
		began bool
	}
	const minute = time.Minute
	for name, steps := range map[string][]step{
		"by scripts": {
			{ImageStep, 0, v1.StateBooting, true}, {ImageStep, time.Second, v1.StateBooting, false},
			{ConfigStep, minute, v1.StateProvisioning, false}, {ConfigStep, time.Hour, v1.StateProvisioning, false},
			{DiskStep, time.Second, v1.StateProvisioned, true}, {DiskStep, time.Second, v1.StateProvisioned, false},
			{ConfigStep, minute, v1.StateProvisioned, false}, {DiskStep, minute, v1.StateProvisioned, true},
		},
		"a boot that comes to nothing": {
			{ImageStep, 0, v1.StateBooting, true}, {AgainStep, minute, v1.StateBooting, false}, {AgainStep, minute,
				v1.StateBooting, false},
			{ImageStep, minute, v1.StateBooting, true},
		},
		"forever": {
			{ImageStep, 0, v1.StateBooting, true}, {ConfigStep, time.Second, v1.StateProvisioning, false},
			{ImageStep, time.Second, v1.StateBooting, true}, {ImageStep, minute, v1.StateBooting, true},
		},
		"without scripts": {
			{ConfigStep, 0, v1.StateProvisioning, true}, {ConfigStep, minute, v1.StateProvisioning, false},
			{CompleteStep, minute, v1.StateProvisioned, false}, {ConfigStep, minute, v1.StateProvisioned, false},
			{ConfigStep, 3 * minute, v1.StateProvisioning, true},
		},
		"an image that cannot be had": {
			{FailStep, 0, v1.StateError, false}, {FailStep, time.Second, v1.StateError, false}, {ImageStep, time.Second,
				v1.StateBooting, true},
			{FailStep, minute, v1.StateError, false}, {ImageStep, minute, v1.StateBooting, true}, {ConfigStep, minute,
				v1.StateProvisioning, false},
			{FailStep, minute, v1.StateProvisioning, false}, {DiskStep, minute, v1.StateProvisioned, true}, {FailStep, minute,
				v1.StateProvisioned, false},
		},
		"forever, an image that cannot be had": {
			{CompleteStep, 0, v1.StateProvisioned, false}, {FailStep, minute, v1.StateError, false}, {ImageStep, minute,
				v1.StateBooting, true},
		},
		"no image any more": {{FailStep, 0, v1.StateError, false}, {DiskStep, minute, v1.StateAvailable, true}},
		"always the disk":   {{DiskStep, 0, "", true}, {DiskStep, minute, "", true}},
		"complete at once":  {{CompleteStep, 0, v1.StateProvisioned, false}, {DiskStep, minute, v1.StateProvisioned, true}},
	} {
		t.Run(name, func(t *testing.T) {
			var p model.Progress
			at, h := epoch, once
			if strings.HasPrefix(name, "forever") {
				h = forever
			}
			for i, s := range steps {
				at = at.Add(s.after)
				var began bool
				if p, began = Advance(h, p, s.step, at); began != s.began || p.State != s.state || began != p.Boot.Equal(at) ||
					!p.Seen.Equal(at) {
					t.Fatalf("step %d: %v, %+v; want %+v", i, began, p, s)
				}
			}
		})
	}
}

// The clock may have been set back, or that of the server that wrote the status is
// ahead: what comes after is not seen earlier, and the host is installed once.
func TestAdvanceUnderAnotherClock(t *testing.T) {
	h := &model.Host{}
	ahead := epoch.Add(time.Hour)
	known, _ := Advance(h, model.Progress{}, ImageStep, ahead)
	for i, step := range []Step{ImageStep, ConfigStep, DiskStep, DiskStep} {
		next, _ := Advance(h, known, step, epoch.Add(time.Duration(i)*time.Second))
		if known.Seen.After(next.Seen) {
			t.Fatalf("step %d: %+v is taken for later than %+v", i, known, next)
		}
		known = next
	}
	if !known.Seen.Equal(ahead) {
		t.Errorf("it has run ahead of every clock: %v", known.Seen)
	}
	if armed, _ := Armed(h, known); armed || known.State != v1.StateProvisioned {
		t.Errorf("%+v", known)
	}
}
