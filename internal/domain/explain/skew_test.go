package explain

import (
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/template"
	"glowplug/internal/store/snapshot/labtest"
)

// skewLab is a rack with an old image and configs of several versions.
func skewLab() *lab {
	l := &lab{}
	servable := func(c *v1.IgnitionConfig, own string, versions ...string) {
		c.Compiled.IgnitionVersion = own
		for _, v := range versions {
			c.Status.Servable = append(c.Status.Servable, v1.ServableVersions{Versions: v})
		}
		c.Status.Servable = append(c.Status.Servable, v1.ServableVersions{Versions: "3.0.0-3.1.0",
			BlockedBy: []string{"storage.luks"}})
	}
	servable(l.Config("g10", "new", v1.TypeIgnition,
		v1.IgnitionConfigSelector{MatchLabels: map[string]string{"role": "new"}}), "3.4.0", "3.4.0", "3.5.0")
	servable(l.Config("g10", "any", v1.TypeIgnition,
		v1.IgnitionConfigSelector{MatchLabels: map[string]string{"role": "any"}}), "3.4.0", "3.2.0", "3.3.0", "3.4.0")
	l.Config("g10", "untold", v1.TypeIgnition, v1.IgnitionConfigSelector{MatchLabels: map[string]string{"role": "untold"}})
	for _, image := range []struct{ name, max string }{{"old", "3.2.0"}, {"young", "3.5.0"}, {"unknown", ""}} {
		l.Image("g10", image.name, "")
		i := l.Images[len(l.Images)-1]
		i.Spec.Stream = &v1.StreamImage{Name: "stable"}
		i.Status = v1.ISCSICdromStatus{Phase: v1.PhaseReady, ServedRelease: "33.20201201.3.0", MaxIgnition: image.max}
	}
	for _, h := range []struct{ name, role, image string }{
		{"new-old", "new", "old"}, {"new-young", "new", "young"}, {"new-unknown", "new", "unknown"}, {"new-disk", "new", ""},
		{"new-localboot", "new", "localboot"}, {"new-missing", "new", "missing"},
		{"any-old", "any", "old"}, {"untold-old", "untold", "old"}, {"none-old", "none", "old"},
	} {
		l.Host("g10", h.name, "", "10.0.0.9", "role", h.role).Spec.Image = h.image
	}
	return l
}

func TestSkew(t *testing.T) {
	l := skewLab()
	d := decide.New(decide.Options{Inventory: l.Inventory(t)})
	for _, h := range l.Hosts {
		s := SkewOf(d, model.HostFrom(h))
		if (s != nil) != (h.Name == "new-old") {
			t.Errorf("%s: %v", h.Name, s)
		}
		if s != nil && s.String() != "host g10/new-old boots image g10/old, release 33.20201201.3.0, which reads Ignition spec 3.2.0 at most, "+
			"and its config g10/new is of spec 3.4.0 and cannot be given in any that it reads" {
			t.Error(s)
		}
	}
	e := Explain(d, ask{Believed: true, Hostname: "new-old"}.Request(t))
	if b := e.Boot; b.Release != "33.20201201.3.0" || b.MaxIgnition != "3.2.0" ||
		!strings.HasPrefix(b.Skew, "host g10/new-old boots image g10/old") {
		t.Errorf("%+v", b)
	}
	if e := Explain(d, ask{Believed: true, Hostname: "any-old"}.Request(t)); e.Boot == nil || e.Boot.Skew != "" || e.Boot.MaxIgnition != "3.2.0" {
		t.Errorf("%+v", e.Boot)
	}
}

// What is being written is looked at as if it had been.
func TestSkewOfWhatIsWritten(t *testing.T) {
	l := skewLab()
	d := decide.New(decide.Options{Inventory: l.Inventory(t)})
	names := func(c Changed) string {
		var all []string
		for _, s := range Skews(d, c, 10) {
			all = append(all, s.Host.Name)
		}
		return strings.Join(all, " ")
	}
	image := func(name, max string) Changed {
		i := model.ImageFrom(l.Images[0])
		i.Ref.Name, i.MaxIgnition = name, max
		return Changed{Image: i}
	}
	for want, c := range map[string]Changed{
		"new-old": image("old", "3.3.0"), "": image("old", "3.4.0"), "new-young": image("young", "3.0.0"), "new-missing": image("missing", "3.2.0"),
	} {
		if got := names(c); got != want {
			t.Errorf("%s with %s: %q, want %q", c.Image.Ref, c.Image.MaxIgnition, got, want)
		}
	}
	config := func(name, label string, versions ...string) Changed {
		c := l.Configs[0].DeepCopy()
		c.Name, c.Spec.Selector = name, v1.IgnitionConfigSelector{MatchLabels: map[string]string{"role": label}}
		c.Status.Servable = nil
		c.CreationTimestamp = labtest.Meta("g10", name, 100).CreationTimestamp
		c.Compiled.IgnitionVersion = versions[0]
		for _, v := range versions {
			c.Status.Servable = append(c.Status.Servable, v1.ServableVersions{Versions: v})
		}
		return Changed{Config: model.ConfigFrom(c)}
	}
	for name, c := range map[string]struct {
		changed Changed
		want    string
	}{
		"readable now":             {config("new", "new", "3.2.0"), ""},
		"still not":                {config("new", "new", "3.5.0"), "new-old"},
		"no longer":                {config("any", "any", "3.4.0"), "any-old"},
		"for nobody":               {config("any", "nobody", "3.4.0"), ""},
		"one that is new":          {config("fresh", "none", "3.3.0"), "none-old"},
		"one that loses to others": {config("zzz", "any", "3.4.0"), ""},
	} {
		if got := names(c.changed); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := Skews(d, config("new", "new", "3.5.0"), 0); len(got) > 0 {
		t.Errorf("more than asked for: %v", got)
	}
}

// byLabel is a fake of the cache of renderings: a host gets the config in its label.
type byLabel struct{}

func (byLabel) Render(
	config *model.Config, host *model.Host, _ *template.Facts, _ decide.Asker,
) (*model.Config, *fault.Error) {
	text := host.Labels["config"]
	if text == "" {
		return nil, fault.New(fault.Unavailable, "it cannot be rendered")
	}
	out := *config
	out.Template, out.Artifact, out.Hash, out.IgnitionVersion = false, []byte(text), "sha256:"+host.Name, "3.4.0"
	if strings.Contains(text, "2.2.0") {
		out.IgnitionVersion = "2.2.0"
	}
	return &out, nil
}

// The rendering of a template is checked for each host.
func TestSkewOfATemplate(t *testing.T) {
	l := skewLab()
	c := l.Config("g10", "template", v1.TypeIgnition, v1.IgnitionConfigSelector{MatchLabels: map[string]string{"role": "each"}})
	c.Compiled.Template, c.Compiled.IgnitionVersion = true, ""
	const plain, arguments = `{"ignition":{"version":"3.4.0"}}`, `{"ignition":{"version":"3.4.0"},"kernelArguments":{"shouldExist":["quiet"]}}`
	for _, h := range []struct{ name, image, config string }{
		{"converted", "old", plain}, {"refused", "old", arguments}, {"read", "young", arguments}, {"other-major", "old", `{"ignition":{"version":"2.2.0"}}`},
		{"not-rendered", "old", ""}, {"not-known", "unknown", arguments}, {"disk", "", arguments},
	} {
		l.Host("g10", h.name, "", "10.0.1.9", "role", "each", "config", h.config).Spec.Image = h.image
	}
	d := decide.New(decide.Options{Inventory: l.Inventory(t), Renderer: byLabel{}})
	for _, h := range l.Hosts {
		s, known := SkewOfStored(d, model.HostFrom(h), nil)
		if known != (h.Name != "not-rendered") || (s != nil) != (h.Name == "refused" || h.Name == "new-old") {
			t.Errorf("%s: %v %v", h.Name, s, known)
		}
		if h.Name == "refused" && s != nil && !strings.HasSuffix(s.String(), "its config g10/template is of spec 3.4.0 and cannot be given in any that it reads") {
			t.Error(s)
		}
	}
	if e := Explain(d, ask{Believed: true, Hostname: "refused"}.Request(t)); e.Boot == nil || !strings.HasPrefix(e.Boot.Skew, "host g10/refused boots image g10/old") {
		t.Errorf("%+v", e.Boot)
	}
}

// TestALiveImageCannotDoWhatAConfigAsks: Ignition stops on a live CoreOS whose config wants other kernel arguments, or
// names the disk of an installation. A write of the host and its condition say so, also for a template; an image whose
// arguments are right, or not known, that installs by the config, or that is no CoreOS, is not concerned.
func TestALiveImageCannotDoWhatAConfigAsks(t *testing.T) {
	var l lab
	const args = `{"ignition":{"version":"3.4.0"},"kernelArguments":{"shouldExist":["mitigations=off"]}}`
	const disk = `{"ignition":{"version":"3.4.0"},"storage":{"disks":[{"device":"/dev/disk/by-id/coreos-boot-disk"}]}}`
	for role, artifact := range map[string]string{"args": args, "disk": disk, "plain": "{}", "each": "{{template}}"} {
		c := l.Config("g10", role, v1.TypeIgnition, v1.IgnitionConfigSelector{MatchLabels: map[string]string{"role": role}})
		c.Compiled.Artifact, c.Compiled.Template = []byte(artifact), role == "each"
		c.Status.Servable = []v1.ServableVersions{{Versions: "3.4.0"}}
	}
	own, url := []string{"coreos.liveiso=x", "ignition.firstboot"}, "ignition.config.url=http://192.0.2.1/api/v1/ignition"
	for name, status := range map[string]v1.ISCSICdromStatus{
		"live":    {Distro: "coreos", OwnKernelArgs: own, KernelArgsApplied: []string{url}},
		"right":   {Distro: "coreos", OwnKernelArgs: own, KernelArgsApplied: []string{url, "mitigations=off"}},
		"own":     {Distro: "coreos", OwnKernelArgs: append(own, "mitigations=off"), KernelArgsApplied: []string{url}},
		"unknown": {Distro: "coreos"},
		"inst":    {Distro: "coreos", KernelArgsApplied: []string{"coreos.inst.ignition_url=http://192.0.2.1/"}},
		"new":     {Distro: "coreos", OwnKernelArgs: own, KernelArgsApplied: []string{url}},
		"fedora":  {Distro: "fedora", KernelArgsApplied: []string{url}},
		"pxe":     {Distro: "coreos"},
	} {
		l.Image("g10", name, "")
		i := l.Images[len(l.Images)-1]
		i.Status = status
		i.Status.Phase = v1.PhaseReady
		if name == "new" { // the server has not set it yet
			i.Spec.KernelArgs = []string{"mitigations=off"}
		}
		if name == "pxe" {
			i.Spec.Stream = &v1.StreamImage{Name: "stable", Format: v1.FormatPXE}
			i.Status.Files = []v1.ImageFile{{Role: "rootfs"}}
		}
	}
	const fixed = " Ignition stops in the emergency shell: a live system cannot change its kernel arguments, and " +
		`kernel_arguments.should_exist "mitigations=off" is not among them; set the argument in kernelArgs of the image ` +
		"or the host, or install the system"
	cases := []struct{ role, image, kernelArg, want string }{
		{"args", "live", "", "host g10/h boots image g10/live, a live CoreOS, and with its config g10/args" + fixed},
		{"each", "live", "", "host g10/h boots image g10/live, a live CoreOS, and with its config g10/each" + fixed},
		{"args", "pxe", "", "host g10/h boots image g10/pxe, a live CoreOS, and with its config g10/args" + fixed},
		{"disk", "live", "", "host g10/h boots image g10/live, a live CoreOS, and with its config g10/disk Ignition stops " +
			"in the emergency shell: a live system has no /dev/disk/by-id/coreos-boot-disk, which is the disk of an " +
			"installed one; name the disk of the machine, or install the system"},
		{"args", "live", "mitigations=off", ""}, {"args", "pxe", "mitigations=off", ""},
		{"args", "right", "mitigations=auto", "host g10/h boots image g10/right, a live CoreOS, and with its config " +
			"g10/args" + fixed},
		{"args", "right", "", ""}, {"args", "own", "", ""}, {"args", "new", "", ""}, {"args", "unknown", "", ""},
		{"args", "inst", "", ""}, {"args", "fedora", "", ""}, {"args", "", "", ""}, {"plain", "live", "", ""},
	}
	for _, c := range cases {
		l.Hosts = nil
		h := l.Host("g10", "h", "52:54:00:00:00:01", "192.0.2.10", "role", c.role, "config", args)
		if h.Spec.Image = c.image; c.kernelArg != "" {
			h.Spec.KernelArgs = []string{c.kernelArg}
		}
		d := decide.New(decide.Options{Inventory: l.Inventory(t), Renderer: byLabel{}})
		s, known := SkewOfStored(d, model.HostFrom(h), nil)
		condition := ConfigReadable(s)
		got := ""
		if s != nil {
			got = s.String()
		}
		stops := condition.Reason == "IgnitionStops" && !condition.Met
		if !known || got != c.want || stops != (c.want != "") {
			t.Errorf("%s on %s: %q, %+v", c.role, c.image, got, condition)
		}
		if found := SkewOf(d, model.HostFrom(h)); (found != nil) != (c.want != "" && c.role != "each") {
			t.Errorf("%s on %s: a write finds %v", c.role, c.image, found)
		}
		config := d.View().Config(model.Ref{Namespace: "g10", Name: c.role})
		if found := Skews(d, Changed{Config: config}, 5); (len(found) == 1) != (c.want != "" && c.role != "each") {
			t.Errorf("%s on %s: a write of the config finds %v", c.role, c.image, found)
		}
	}
}
