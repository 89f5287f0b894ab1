package e2e

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

// TestApplyLocalFiles stores configs whose parts are on the client's disk.
func TestApplyLocalFiles(t *testing.T) {
	needs(t)
	s := start(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "files/motd"), "from a file\n")
	write(t, filepath.Join(dir, "files/tree/etc/b"), "from a tree\n")
	write(t, filepath.Join(dir, "rack.yaml"), `
apiVersion: v1
kind: BareMetalHost
metadata: {name: node}
spec: {ip: 127.0.0.1}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: node}
spec:
  type: ignition
  format: butane
  config: |
    variant: fcos
    version: 1.5.0
    storage:
      trees: [{local: tree}]
      files: [{path: /etc/motd, contents: {local: motd}}]
  selector: {matchIPs: [127.0.0.1]}
`)
	write(t, filepath.Join(dir, "plain.bu"),
		"variant: fcos\nversion: 1.5.0\nstorage:\n  files: [{path: /etc/motd, contents: {local: motd}}]\n")
	write(t, filepath.Join(dir, "broken.yaml"),
		"apiVersion: v1\nkind: IgnitionConfig\nmetadata: {name: broken}\nspec: {type: ignition, format: butane, config: "+
			"\"variant: fcos\"}\n")
	write(t, filepath.Join(dir, "unknown.yaml"),
		"apiVersion: v1\nkind: BareMetalHost\nmetadata: {name: x}\nspec: {ipp: 10.0.0.1}\n")
	apply := func(args ...string) (stdout, stderr string, code int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, append([]string{"apply", "--server", s.admin("")}, args...)...)
		cmd.Dir = dir
		var out, notes bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &notes
		_ = cmd.Run()
		return out.String(), notes.String(), cmd.ProcessState.ExitCode()
	}
	says := func(wantCode int, wantOut, wantNotes string, args ...string) {
		t.Helper()
		out, notes, code := apply(args...)
		if code != wantCode || out != wantOut || !strings.Contains(notes, wantNotes) || wantNotes == "" && notes != "" {
			t.Errorf("apply %v: exit code %d, %q, %q; want %d, %q, %q", args, code, out, notes, wantCode, wantOut, wantNotes)
		}
	}
	// The order of the files does not matter for layers, and a config that is stored and does
	// not compile is an error each time.
	layered := func(name, layer, storage string) string {
		return "apiVersion: v1\nkind: IgnitionConfig\nmetadata: {name: " + name + ", namespace: layers}\nspec:\n" +
			"  type: ignition\n  format: ignition\n  layers: [" + layer + "]\n" +
			"  config: '{\"ignition\":{\"version\":\"3.4.0\"},\"storage\":" + storage + "}'\n---\n"
	}
	write(t, filepath.Join(dir, "layers.yaml"), layered("upper", "{name: lower}", "{}")+layered("lower", "", "{}"))
	write(t, filepath.Join(dir, "conflict.yaml"),
		layered("upper", "{name: lower}", `{"files":[{"path":"/etc/d/f"}]}`)+
			layered("lower", "", `{"links":[{"path":"/etc/d","target":"/x"}]}`))
	says(0, "ignitionconfig layers/lower created (dry run)\nignitionconfig layers/upper created (dry run)\n",
		"note: the warning is about layers/upper over the hosts and layers that are stored", "-f", "layers.yaml",
		"--dry-run=server")
	says(0, "ignitionconfig layers/lower created\nignitionconfig layers/upper created\n", "", "-f", "layers.yaml")
	for _, done := range []string{"configured", "unchanged"} {
		says(1, "ignitionconfig layers/lower "+done+"\nignitionconfig layers/upper "+done+"\n",
			"ignitionconfig layers/upper is stored, and cannot be merged over its layers\nerror: errors in 1 object of 2\n",
			"-f", "conflict.yaml")
	}
	// A layer that comes later mends the config that is in error for want of it.
	write(t, filepath.Join(dir, "alone.yaml"), layered("waits", "{name: late}", "{}"))
	write(t, filepath.Join(dir, "late.yaml"), layered("waits", "{name: late}", "{}")+layered("late", "", "{}"))
	says(1, "ignitionconfig layers/waits created\n",
		"error: ignitionconfig layers/waits is stored, and cannot be merged over its layers\n",
		"-f", "alone.yaml")
	// A dry run says the same while no object here would change that.
	write(t, filepath.Join(dir, "half.yaml"), layered("waits", "{name: lower}, {name: late}", "{}")+
		layered("lower", "", `{"links":[{"path":"/etc/d","target":"/x"}]}`))
	says(1, "ignitionconfig layers/lower unchanged (dry run)\nignitionconfig layers/waits configured (dry run)\n",
		"ignitionconfig layers/waits cannot be merged over its layers\n", "-f", "half.yaml", "--dry-run")
	says(0, "ignitionconfig layers/late created\nignitionconfig layers/waits unchanged\n", "", "-f", "late.yaml")
	// A host or a layer that mends a template is followed before the template is judged.
	const templated = "apiVersion: v1\nkind: IgnitionConfig\nmetadata: {name: made, namespace: layers}\nspec:\n" +
		"  {type: ignition, format: butane, template: true, selector: {matchLabels: {role: made}},\n" +
		"  layers: [{name: under}],\n" +
		"  config: \"variant: fcos\\nversion: 1.5.0\\nstorage: {files: [{path: /r, contents: {inline: " +
		"'{{ .Labels.rack }}'}}]}\"}\n---\n"
	host := func(name, labels string) string {
		return "apiVersion: v1\nkind: BareMetalHost\nmetadata: {name: " + name + ", namespace: layers, labels: {role: made" +
			labels + "}}\nspec: {bootMACAddress: \"52:54:00:00:77:0" + name[1:] + "\"}\n---\n"
	}
	write(t, filepath.Join(dir, "bad.yaml"), templated+layered("under", "", "{}")+host("m1", "")+host("m2", ", rack: r2"))
	write(t, filepath.Join(dir, "mended.yaml"), templated+host("m1", ", rack: r1"))
	_, _, _ = apply("-f", "bad.yaml")
	testkit.Until(t, "the template fails for a host", func() bool {
		_, notes, code := apply("-f", "bad.yaml")
		return code == 1 &&
			strings.Contains(notes, "warning: spec.config: when it was last rendered: 1 of 2 hosts fails: ") &&
			strings.Contains(notes, "IgnitionConfig made: ignitionconfig layers/made is stored, and fails for 1 host\n")
	})
	says(0, "ignitionconfig layers/made unchanged (dry run)\nbaremetalhost layers/m1 configured (dry run)\n",
		"note: the warning is about layers/made over the hosts and layers that are stored", "-f", "mended.yaml", "--dry-run")
	says(0, "ignitionconfig layers/made unchanged\nbaremetalhost layers/m1 configured\n", "", "-f", "mended.yaml")
	says(2, "", `error: --dry-run: "client" is not one of none, server`, "-f", "layers.yaml", "--dry-run=client")
	const local = ", with its local files, as Ignition\n"
	says(0, "baremetalhost default/node created (dry run)\nignitionconfig default/node created (dry run)"+local, "",
		"-f", "rack.yaml", "--files-dir", "files", "--dry-run")
	if a := get(t, s.url("/api/v1/ignition")); a.status != 404 {
		t.Errorf("a dry run has written: %d %s", a.status, a.body)
	}
	for _, done := range []string{"created", "unchanged"} {
		says(0, "baremetalhost default/node "+done+"\nignitionconfig default/node "+done+local, "", "-f", "rack.yaml",
			"--files-dir", "files")
	}
	butane := exec.CommandContext(t.Context(), program, "compile", "--files-dir", "files", "-", "--format", "butane")
	butane.Dir = dir
	butane.Stdin = strings.NewReader(
		"variant: fcos\nversion: 1.5.0\nstorage:\n  trees: [{local: tree}]\n  files: [{path: /etc/motd, contents: {local: " +
			"motd}}]\n")
	want, err := butane.Output()
	if err != nil {
		t.Fatal(err)
	}
	if a := get(t, s.url("/api/v1/ignition")); a.status != 200 || a.body != string(want) || !strings.Contains(a.body,
		"from%20a%20tree") {
		t.Errorf("served %d %q, want %q", a.status, a.body, want)
	}

	// A file that is no manifest, for the machines of the flags; again without them.
	const plain = "ignitionconfig rack/plain "
	says(0, plain+"created"+local, "note: no machine is selected", "-f", "plain.bu", "--files-dir", "files", "-n", "rack")
	says(0, plain+"configured"+local, "", "-f", "plain.bu", "--files-dir", "files", "-n", "rack", "--label", "role=worker", "--mac",
		"52:54:00:00:00:01")
	says(0, plain+"unchanged"+local, "", "-f", "plain.bu", "--files-dir", "files", "-n", "rack")
	if got := s.kubectl("", "get", "ignitionconfig", "-n", "rack", "plain", "-o",
		"jsonpath={.spec.selector}"); got != `{"matchLabels":{"role":"worker"},"matchMACs":["52:54:00:00:00:01"]}` {
		t.Errorf("the selector is %s", got)
	}
	says(0, "ignitionconfig rack/other created"+local, "", "-f", "plain.bu", "--files-dir",
		"files", "-n", "rack", "--name", "other", "--default")

	// Nothing is sent before everything has been read and compiled.
	for file, place := range map[string]string{"broken.yaml": "--> broken.yaml:4:", "unknown.yaml": "--> unknown.yaml:4:8"} {
		says(1, "", place, "-f", "rack.yaml", "-f", file, "--files-dir", "files")
	}
}

// TestApplyFollowsCorrections: the status of a config follows that of its layers and hosts in the
// background, and apply does not tell an error that a write right before has ended.
func TestApplyFollowsCorrections(t *testing.T) {
	needs(t)
	s := start(t)
	config := func(name, spec, key string) string {
		return "apiVersion: v1\nkind: IgnitionConfig\nmetadata: {name: " + name + "}\nspec:\n  type: ignition\n" +
			"  format: butane\n" + spec + "  config: |\n    variant: fcos\n    version: 1.5.0\n    " + key + ":\n" +
			"      files: [{path: /etc/" + name + ", contents: {inline: '{{ .Labels.rack }}'}}]\n"
	}
	const above = "  layers: [{name: base}]\n"
	base, top := config("base", "", "storage"), config("top", above, "storage")
	template := config("made", above+"  template: true\n  selector: {matchLabels: {role: made}}\n", "storage")
	const host = "apiVersion: v1\nkind: BareMetalHost\nmetadata: {name: node, labels: {role: made, rack: r1}}\n" +
		"spec: {bootMACAddress: \"52:54:00:00:77:01\"}\n"
	apply := func(files string, args ...string) (notes string) {
		t.Helper()
		args = append([]string{"apply", "--server", s.admin(""), "-f", "-"}, args...)
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Stdin = strings.NewReader(files)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			t.Errorf("apply: %v: %s", err, &stderr)
		}
		return stderr.String()
	}
	field := func(name, path string) string {
		return s.kubectl("", "get", "ign", name, "-o", "jsonpath={"+path+"}")
	}
	silent := func(what, notes string) {
		t.Helper()
		if notes != "" {
			t.Errorf("%s: %s", what, notes)
		}
	}
	apply(host + "---\n" + base + "---\n" + top + "---\n" + template)
	for range 3 {
		if _, _, err := s.tryKubectl(config("base", "", "storge"), "apply", "--server-side", "--force-conflicts", "-f",
			"-"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"top", "made"} {
			testkit.Until(t, name+" has the warning", func() bool {
				return strings.Contains(field(name, ".status.warnings"), "base has an error, and its last good")
			})
		}
		notes := apply(base+"---\n"+top+"---\n"+template, "--dry-run")
		if got := strings.Count(notes, "note: the warning is about default/"); got != 2 {
			t.Errorf("a dry run has %d notes: %s", got, notes)
		}
		silent("the layer is corrected in the same apply", apply(base+"---\n"+top+"---\n"+template))
	}
	s.kubectl("", "label", "bmh", "node", "rack-")
	testkit.Until(t, "the template fails", func() bool { return field("made", ".status.phase") == "Error" })
	silent("the host is corrected", apply(host))
	silent("the host was corrected right before", apply(template))
}
