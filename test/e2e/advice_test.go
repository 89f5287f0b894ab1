package e2e

import (
	"strings"
	"testing"
)

// TestWarningsOfWhatDoesNotFit: the answer to a write warns of what the operator would see
// only when a machine boots.
func TestWarningsOfWhatDoesNotFit(t *testing.T) {
	needs(t)
	s := start(t)
	apply := func(object, want string) {
		t.Helper()
		_, stderr, err := s.tryKubectl("apiVersion: v1\n"+object, "apply", "-f", "-")
		if err != nil || want == "" && stderr != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v\n%s\nwant %q", err, stderr, want)
		}
	}
	const config = "kind: IgnitionConfig\nmetadata: {name: NAME, namespace: rack}\nspec:\n  type: ignition\n" +
		"  format: butane\n  selector: {matchLabels: {role: worker}}\n  config: |\n    variant: fcos\n    version: 1.5.0\n"
	apply(strings.ReplaceAll(config, "NAME", "first"), "")
	apply(strings.ReplaceAll(config, "NAME", "second"), "Warning: spec.selector: IgnitionConfig rack/first has the same selector")
	apply("kind: BareMetalHost\nmetadata: {name: empty, namespace: rack}\nspec: {}",
		"Warning: spec: no machine is recognised as this host: set bootMACAddress, ip or bootSources")
	const host = "kind: BareMetalHost\nmetadata: {name: one, namespace: rack}\nspec: {ip: 192.0.2.1, image: IMAGE}"
	apply(strings.ReplaceAll(host, "IMAGE", "missing"),
		"Warning: spec.image: ISCSICdrom rack/missing does not exist: the machine cannot boot it until it exists")

	// A new image of a machine that is installed is not booted.
	apply("kind: ISCSICdrom\nmetadata: {name: fcos, namespace: rack}\nspec: {isoFile: fcos.iso}", "")
	s.kubectl("", "patch", "-n", "rack", "bmh", "one", "--subresource=status", "--type=merge", "-p",
		`{"status":{"state":"Provisioned"}}`)
	apply(strings.ReplaceAll(host, "IMAGE", "fcos"),
		"Warning: spec.image: the machine goes on to boot its disk and not the new image: it is provisioned "+
			"(a new value of the annotation glowplug.dev/rearm arms it again)")
	apply(strings.ReplaceAll(host, "IMAGE", "fcos"), "")
	apply(strings.ReplaceAll(host, "IMAGE", "rack/fcos"), "") // the same image
}
