package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	v1 "glowplug/api/v1"
	"glowplug/internal/app"
	"glowplug/internal/domain/coreos/streamtest"
	"glowplug/internal/store/natsd/natstest"
)

// startServer runs a whole server on loopback, and returns the URL of its admin listener.
func startServer(t *testing.T, flags ...string) string {
	t.Helper()
	admin := freeAddress(t)
	runServer(t, append([]string{"--admin-listen", admin}, flags...)...)
	return "http://" + admin
}

func freeAddress(t *testing.T) string { return fmt.Sprintf("127.0.0.1:%d", natstest.FreePort(t)) }

// runServer runs a whole server on loopback, and returns its URL for machines.
func runServer(t *testing.T, flags ...string) string {
	t.Helper()
	return runServerLogging(t, io.Discard, flags...)
}

// runServerLogging is runServer with a log.
func runServerLogging(t *testing.T, log io.Writer, flags ...string) string {
	t.Helper()
	var o app.Options
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.AddFlags(fs)
	address := freeAddress(t)
	flags = append([]string{"--data-dir", t.TempDir(), "--listen", address, "--listen-tls", ""}, flags...)
	if err := fs.Parse(flags); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a, err := app.New(ctx, o, io.Discard, log)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get("http://" + address + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return "http://" + address
			}
		}
		if time.Now().After(end) {
			t.Fatal("the server does not become ready")
		}
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestCoreOSOutputs: what was imported comes out everywhere to the byte.
func TestCoreOSOutputs(t *testing.T) {
	const pub = "/pub/openshift-v4/dependencies/rhcos-4.8.json"
	images := t.TempDir()
	server := startServer(t, "--streams-alias", pub+"=rhcos-4.8", "--streams-dir", images)
	cm := func() *v1.ConfigMap {
		var cm v1.ConfigMap
		_ = json.Unmarshal([]byte(fetch(t, server+
			"/api/v1/namespaces/openshift-machine-config-operator/configmaps/coreos-bootimages")), &cm)
		return &cm
	}
	// One with what this program does not know, and with bytes that many a JSON
	// writer would change.
	document := string(streamtest.Document(streamtest.Options{Stream: "rhcos-4.8", Release: "48.83.202103221318-0",
		Artifacts: streamtest.RHCOS, Unsigned: true}))
	document = strings.Replace(document, `"stream": "rhcos-4.8",`,
		"\"stream\" : \"rhcos-4.8\",\t\"x\": [1.0, 1e3, \"<&>\\u00e9\u2028\\/\"],\r\n", 1) + "\n\n"
	file := writeFile(t, filepath.Join(t.TempDir(), "rhcos.json"), []byte(document))

	code, stdout, stderr := run("coreos", "import", "--server", server, file, "--max-ignition", "3.2.0")
	if code != 0 || stdout != "streamrelease/rhcos-4.8-48.83.202103221318-0 created\nstream rhcos-4.8, release "+
		"48.83.202103221318-0: 4 architectures, 43 images\n" {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	for end := time.Now().Add(10 * time.Second); cm().Data["stream"] == "" &&
		time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
	}
	outputs := map[string]string{"the ConfigMap": cm().Data["stream"], "HTTP": fetch(t, server+"/streams/rhcos-4.8.json"),
		"the alias": fetch(t, server+pub)}
	_, outputs["print-stream-json"], _ = run("coreos", "print-stream-json", "--server", server)
	_, outputs["print-stream-json --stream"], _ = run("coreos", "print-stream-json", "--server", server, "--stream",
		"rhcos-4.8")
	_, outputs["print-stream-json --release"], _ = run("coreos", "print-stream-json", "--server", server, "--release",
		"48.83.202103221318-0")
	_, outputs["offline"], _ = run("coreos", "print-stream-json", file)
	_, outputs["offline --stream"], _ = run("coreos", "print-stream-json", file, "--stream", "rhcos-4.8")
	if code, _, stderr := run("coreos", "print-stream-json", file, "--stream", "stable"); code != 1 || !strings.Contains(stderr,
		"is of the stream rhcos-4.8, and --stream is stable") {
		t.Errorf("%d %s", code, stderr)
	}
	for output, got := range outputs {
		if got != document {
			t.Errorf("%s: other bytes (%d for %d)", output, len(got), len(document))
		}
	}
	if got := cm().Data["releaseVersion"]; got != "48.83.202103221318-0" {
		t.Error(got)
	}

	// Again, with another flag, and what was given before stays.
	for _, c := range []struct{ want, flag string }{{"unchanged", ""}, {"configured", "--mirror=http://mirror/"},
		{"unchanged", "--mirror=http://mirror/"}, {"configured", "--current"}} {
		args := []string{"coreos", "import", "--server", server, file}
		if c.flag != "" {
			args = append(args, c.flag)
		}
		if code, stdout, stderr := run(args...); code != 0 || !strings.Contains(stdout, "-0 "+c.want+"\n") {
			t.Errorf("%s: %d %s%s", c.flag, code, stdout, stderr)
		}
	}
	var kept v1.StreamRelease
	if err := json.Unmarshal([]byte(fetch(t, server+"/api/v1/streamreleases/rhcos-4.8-48.83.202103221318-0")),
		&kept); err != nil {
		t.Fatal(err)
	}
	if kept.Spec.MaxIgnition != "3.2.0" || len(kept.Spec.Mirrors) != 1 || !kept.Spec.Current {
		t.Errorf("%+v", kept.Spec)
	}

	// A second stream: then one has to be named; the older form; a mirror's folder.
	if code, _, stderr := run("coreos", "import", "--server", server, "testdata/rhcos-amd64.json"); code != 0 {
		t.Fatal(stderr)
	}
	if code, _, stderr := run("coreos", "print-stream-json", "--server", server); code != 2 || !strings.Contains(stderr,
		"--stream: the server has several streams: rhcos-4.7, rhcos-4.8") {
		t.Errorf("%d %s", code, stderr)
	}
	legacy, err := os.ReadFile("testdata/rhcos-amd64.json")
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = run("coreos", "print-stream-json", "--server", server, "--stream", "rhcos-4.7", "--legacy")
	var want, got any
	if code != 0 || json.Unmarshal(legacy, &want) != nil || json.Unmarshal([]byte(stdout), &got) != nil || !jsonEqual(want,
		got) {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	s := newFileServer(t)
	mirrored := writeFile(t, filepath.Join(t.TempDir(), "m.json"),
		streamtest.Document(streamtest.Options{Stream: "mirrored", Release: "1", Base: s.URL, Content: contentOf}))
	if code, stdout, stderr := run("coreos", "import", "--server", server, mirrored); code != 0 {
		t.Fatal(stdout, stderr)
	}
	if code, stdout, stderr := run("coreos", "mirror", "--server", server, "--stream", "mirrored", "--arch", "s390x",
		"--artifact", "qemu", "--rewrite-base", server+"/streams/artifacts", images); code != 0 {
		t.Fatal(stdout, stderr)
	}
	again := t.TempDir()
	if code, stdout, stderr := run("coreos", "mirror", "--from", server+"/streams/artifacts/mirrored.json", "--arch",
		"s390x", "--artifact", "qemu", again); code != 0 || !strings.Contains(stdout, "1 downloaded") {
		t.Error(code, stdout, stderr)
	}
	const below = "mirrored/1/s390x/qemu/fedora-coreos-1-qemu.s390x.qcow2.xz"
	if got, err := os.ReadFile(filepath.Join(again, below)); err != nil || !bytes.Equal(got,
		contentOf(filepath.Base(below))) {
		t.Error(err)
	}
}

func jsonEqual(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}
