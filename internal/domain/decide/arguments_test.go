package decide

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
)

// TestExplainedArguments: explain has all kernel arguments that are added to the boot entries of an image, with the
// origin of each, and says where none of them, nor one of the host, tells the system where its config is.
func TestExplainedArguments(t *testing.T) {
	const url = "ignition.config.url=http://192.0.2.1/api/v1/ignition"
	const missing = "no argument tells it"
	for name, c := range map[string]struct {
		spec     v1.ISCSICdromSpec
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
		"none":        {noConfig: true, want: "[]", warning: "image g10/live: " + missing},
		"of the host": {noConfig: true, host: []string{"ks=${glowplug}/x"}, want: "[{ks=${glowplug}/x host}]"},
		"pxe": {spec: v1.ISCSICdromSpec{Stream: &v1.StreamImage{Name: "stable", Format: v1.FormatPXE}, KernelArgs: []string{"quiet"}},
			want: "[{flatcar.first_boot=1 default} {ignition.platform.id=metal default} " +
				"{ignition.config.url=${glowplug}/api/v1/ignition default} {quiet image}]"},
	} {
		t.Run(name, func(t *testing.T) {
			var l lab
			h := l.host("g10", "h", "52:54:00:00:00:01", "192.168.10.1")
			h.Spec.Image, h.Spec.KernelArgs = "live", c.host
			l.image("g10", "live", "")
			i := l.images[0]
			i.Spec, i.Status.Phase, i.Status.KernelArgsApplied = c.spec, v1.PhaseReady, c.applied
			if c.noConfig {
				i.Status.Conditions = []metav1.Condition{{
					Type: v1.ConditionConfigArgument, Status: metav1.ConditionFalse, Message: missing,
				}}
			}
			e, failure := New(Options{Inventory: l.inventory(t)}).Inquire(&Inquiry{
				Type: Ignition, At: epoch, Host: "h", Namespace: "g10",
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
