package explain

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/snapshot/labtest"
)

// TestExplainedArguments: explain has all kernel arguments of an image, with the origin of each, and says where none of
// them, nor one of the host, tells the system where its config is.
func TestExplainedArguments(t *testing.T) {
	const url = "ignition.config.url=http://192.0.2.1/api/v1/ignition"
	const missing = "no argument tells it"
	for name, c := range map[string]struct {
		spec     v1.ISCSICdromSpec
		own      []string
		applied  []string
		noConfig bool
		host     []string
		want     string
		warning  string
	}{
		"the default": {applied: []string{"ignition.firstboot", url}, want: "[{ignition.firstboot default} {" + url + " default}]"},
		"of each": {spec: v1.ISCSICdromSpec{KernelArgs: []string{"ip=dhcp", "quiet"}}, applied: []string{url, "ip=dhcp", "quiet"},
			host: []string{"quiet", "console=ttyS0"},
			want: "[{" + url + " default} {ip=dhcp image} {quiet host} {console=ttyS0 host}]"},
		"of the boot entries": {own: []string{"quiet", "rd.debug=1", "console=ttyS1"}, applied: []string{url}, host: []string{"console=ttyS0"},
			want: "[{quiet boot entry} {rd.debug=1 boot entry} {" + url + " default} {console=ttyS0 host}]"},
		"none":        {noConfig: true, want: "[]", warning: "image g10/live: " + missing},
		"of the host": {noConfig: true, host: []string{"ks=${glowplug}/x"}, want: "[{ks=${glowplug}/x host}]"},
		"pxe": {spec: v1.ISCSICdromSpec{Stream: &v1.StreamImage{Name: "stable", Format: v1.FormatPXE}, KernelArgs: []string{"quiet"}},
			want: "[{flatcar.first_boot=1 default} {ignition.platform.id=metal default} " +
				"{ignition.config.url=${glowplug}/api/v1/ignition default} {quiet image}]"},
	} {
		t.Run(name, func(t *testing.T) {
			var l lab
			h := l.Host("g10", "h", "52:54:00:00:00:01", "192.168.10.1")
			h.Spec.Image, h.Spec.KernelArgs = "live", c.host
			l.Image("g10", "live", "")
			i := l.Images[0]
			i.Spec, i.Status.Phase, i.Status.KernelArgsApplied, i.Status.OwnKernelArgs = c.spec, v1.PhaseReady, c.applied, c.own
			if c.noConfig {
				i.Status.Conditions = []metav1.Condition{{
					Type: v1.ConditionConfigArgument, Status: metav1.ConditionFalse, Message: missing,
				}}
			}
			e, failure := Inquire(decide.New(decide.Options{Inventory: l.Inventory(t)}), &Inquiry{
				Type: decide.Ignition, At: labtest.Epoch, Host: "h", Namespace: "g10",
			})
			if failure != nil {
				t.Fatal(failure)
			}
			if got := fmt.Sprint(e.Boot.Arguments); got != c.want || e.Boot.NoConfig != c.warning {
				t.Errorf("%s, %q; want %s, %q", got, e.Boot.NoConfig, c.want, c.warning)
			}
		})
	}
}

// TestImagesThatAskForAnotherType: an installer that asks for a Kickstart does nothing with the Ignition config that
// its host has, and the other way around. The condition of the host and explain say so.
func TestImagesThatAskForAnotherType(t *testing.T) {
	const kickstart, ignition = "inst.ks=http://192.0.2.1/api/v1/kickstart", "ignition.config.url=http://192.0.2.1/api/v1/ignition"
	for name, c := range map[string]struct {
		configs []string // types
		applied []string
		host    []string
		message string
	}{
		"a Kickstart":             {configs: []string{v1.TypeKickstart}, applied: []string{kickstart}},
		"both":                    {configs: []string{v1.TypeIgnition, v1.TypeKickstart}, applied: []string{kickstart}},
		"not known":               {configs: []string{v1.TypeIgnition}},
		"another server":          {configs: []string{v1.TypeIgnition}, applied: []string{"inst.ks=http://192.0.2.9/ks"}},
		"asks for both":           {configs: []string{v1.TypeIgnition}, applied: []string{kickstart, ignition}},
		"an argument of the host": {configs: []string{v1.TypeIgnition}, applied: []string{kickstart}, host: []string{"inst.ks=hd:sda1"}},
		"an Ignition config alone": {configs: []string{v1.TypeIgnition}, applied: []string{kickstart},
			message: "image g10/live asks for a config of type kickstart (" + kickstart + "), and of this type none matches " +
				"this host: IgnitionConfig g10/c0 is of type ignition; give the host a config of type kickstart, or another image"},
		"a Kickstart alone": {configs: []string{v1.TypeKickstart}, applied: []string{ignition},
			message: "image g10/live asks for a config of type ignition (" + ignition + "), and of this type none matches " +
				"this host: IgnitionConfig g10/c0 is of type kickstart; give the host a config of type ignition, or another image"},
	} {
		t.Run(name, func(t *testing.T) {
			var l lab
			h := l.Host("g10", "h", "52:54:00:00:00:01", "192.168.10.1")
			h.Spec.Image, h.Spec.KernelArgs = "live", c.host
			l.Image("g10", "live", "")
			l.Images[0].Status.Phase, l.Images[0].Status.KernelArgsApplied = v1.PhaseReady, c.applied
			for n, typ := range c.configs {
				l.Config("g10", fmt.Sprintf("c%d", n), typ, sel{Default: true})
			}
			d := decide.New(decide.Options{Inventory: l.Inventory(t)})
			view := d.View()
			got := ConfigMatched(d, view, view.Host(model.Ref{Namespace: "g10", Name: "h"}))
			if got.Met != (c.message == "") || !got.Met && (got.Message != c.message || got.Reason != "OtherType") {
				t.Errorf("%+v", got)
			}
			e, failure := Inquire(d, &Inquiry{Type: decide.Ignition, At: labtest.Epoch, Host: "h", Namespace: "g10"})
			if failure != nil || e.Boot.NoConfig != c.message {
				t.Errorf("%v, explain: %q", failure, e.Boot.NoConfig)
			}
		})
	}
}

// TestArgumentsThatNoImageTakesAreToldAtTheWrite: what no boot entry can have needs no look at the file of the image.
func TestArgumentsThatNoImageTakesAreToldAtTheWrite(t *testing.T) {
	file, elsewhere := &model.Image{}, &model.Image{External: &v1.ExternalTarget{}}
	for _, c := range []struct {
		image *model.Image
		arg   string
		want  bool
	}{
		{file, "console=ttyS0", false}, {file, "inst.ks=${glowplug}/x", false}, {file, "initrd=foo", true},
		{file, "---", true}, {file, "=x", true}, {elsewhere, "initrd=foo", false}, {nil, "initrd=foo", false},
	} {
		if got := AdviseArguments(c.image, []string{"quiet", c.arg}); (len(got) > 0) != c.want {
			t.Errorf("%s: %v", c.arg, got)
		}
	}
}
