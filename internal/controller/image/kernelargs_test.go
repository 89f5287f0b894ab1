package image

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
)

// TestKernelArgsAddToTheDefaults: an image has the default arguments of its distribution beside its own, which
// replace those of the same name; defaultKernelArgs: false leaves the default ones out. An image of which no argument
// tells the system where its config is has a condition that says so.
func TestKernelArgsAddToTheDefaults(t *testing.T) {
	k := newKit(t)
	k.write("fedora.iso", isoImage("Fedora-1", 50*sector, 1))
	k.write("plain.iso", isoImage("PLAIN", 50*sector, 2))
	no := false
	const ks = "inst.ks=http://192.0.2.1:8082/api/v1/kickstart"
	for name, c := range map[string]struct {
		spec  v1.ISCSICdromSpec
		args  []string
		finds metav1.ConditionStatus
	}{
		"default": {
			v1.ISCSICdromSpec{ISOFile: "fedora.iso"},
			[]string{ks, "rd.iscsi.firmware=1", "ip=ibft"}, metav1.ConditionTrue,
		},
		"one-more": {
			v1.ISCSICdromSpec{ISOFile: "fedora.iso", KernelArgs: []string{"console=ttyS0"}},
			[]string{ks, "rd.iscsi.firmware=1", "ip=ibft", "console=ttyS0"}, metav1.ConditionTrue,
		},
		"same-name": {
			v1.ISCSICdromSpec{ISOFile: "fedora.iso", KernelArgs: []string{"ip=dhcp"}},
			[]string{ks, "rd.iscsi.firmware=1", "ip=dhcp"}, metav1.ConditionTrue,
		},
		"none": {
			v1.ISCSICdromSpec{ISOFile: "fedora.iso", DefaultKernelArgs: &no},
			nil, metav1.ConditionUnknown,
		},
		"own-alone": {
			v1.ISCSICdromSpec{ISOFile: "fedora.iso", DefaultKernelArgs: &no, KernelArgs: []string{"quiet"}},
			[]string{"quiet"}, metav1.ConditionUnknown,
		},
		"plain": {
			v1.ISCSICdromSpec{ISOFile: "plain.iso", KernelArgs: []string{"quiet"}},
			[]string{"quiet"}, metav1.ConditionFalse,
		},
		"plain-url": {
			v1.ISCSICdromSpec{ISOFile: "plain.iso", KernelArgs: []string{"ks=${glowplug}/x"}},
			[]string{"ks=http://192.0.2.1:8082/x"}, metav1.ConditionTrue,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := k.phase(k.create(name, c.spec), v1.PhaseReady)
			if !slices.Equal(s.KernelArgsApplied, c.args) {
				t.Errorf("the arguments are %q, want %q", s.KernelArgsApplied, c.args)
			}
			finds := meta.FindStatusCondition(s.Conditions, v1.ConditionConfigArgument)
			if finds == nil || finds.Status != c.finds {
				t.Fatalf("the condition is %+v, want %s", finds, c.finds)
			}
			warnings := k.ctl.ConfigArgumentWarnings(&v1.ISCSICdrom{Spec: c.spec})
			if (len(warnings) > 0) != (c.finds == metav1.ConditionFalse) ||
				len(warnings) > 0 && !strings.HasSuffix(warnings[0], finds.Message) {
				t.Errorf("the write is answered with %q", warnings)
			}
		})
	}
}
