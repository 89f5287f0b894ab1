package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glowplug/internal/testkit"
)

const damageObjects = `
apiVersion: v1
kind: BareMetalHost
metadata: {name: plain, namespace: default}
spec: {bootMACAddress: "02:00:00:00:00:01"}
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: cd, namespace: default}
spec: {external: {portal: 192.0.2.1, iqn: "iqn.2020-01.example:cd"}}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: imaged, namespace: default}
spec: {bootMACAddress: "02:00:00:00:00:02", image: cd}
`

// damageSays has, for a damaged bucket, a path of the admin listener and what its answer says.
var damageSays = map[string][2]string{
	"IGNITIONCONFIGS": {"/api/v1/namespaces/default/baremetalhosts/plain", "lost objects, and with them perhaps the config"},
	"ISCSICDROMS":     {"/api/v1/explain?host=default/imaged", "lacks the image default/cd"},
	"NAMESPACES": {"/api/v1/explain?host=default/imaged",
		"lacks the namespace default, which may have a boot script"},
}

// TestDamagedMetaFile damages the meta file of each bucket in turn, removes the
// copies, and restarts: the server starts at once, names file, bucket and remedy, answers the machines
// that it can answer and no other, refuses to write what is lost, and has all of
// it again after an operator has accepted the loss: of the description, and of no object.
func TestDamagedMetaFile(t *testing.T) {
	needs(t)
	s := &server{t: t, host: "127.0.0.1", dir: filepath.Join(t.TempDir(), "data"), plain: freePort(t), tls: freePort(t)}
	s.launch()
	s.waitReady()
	s.kubectl(damageObjects+"---\n"+configFor("a"), "apply", "-f", "-")
	if code := s.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	// The status codes of: a plain host's config, that of a host with an image, the
	// boot script of the latter, what the buckets' API answers, and /readyz/boot.
	for _, c := range []struct {
		bucket, resource              string
		plain, imaged, api, bootReady int
		script                        string
	}{
		{"BAREMETALHOSTS", "baremetalhosts", 503, 503, 503, 500, ""},
		{"IGNITIONCONFIGS", "ignitionconfigs", 503, 503, 503, 500, ""},
		{"ISCSICDROMS", "iscsicdroms", 503, 503, 503, 200, "the server's store is damaged"},
		{"NAMESPACES", "namespaces", 503, 503, 503, 200, "the server's store is damaged"},
		{"STREAMRELEASES", "streamreleases", 200, 200, 503, 200, "sanboot"},
		{"CONFIGMAPS", "configmaps", 200, 200, 503, 200, "sanboot"},
		{"EVENTS", "events", 200, 200, 200, 200, "sanboot"},
		{"GLOWPLUG", "events", 200, 200, 200, 200, "sanboot"}, // the identity of the store
		{"BOOTS", "boots", 503, 503, 503, 500, ""},
	} {
		t.Run(c.bucket, func(t *testing.T) {
			s := *s
			s.t = t
			home := filepath.Join("nats", "jetstream", "$G", "streams", "KV_"+c.bucket)
			meta := filepath.Join(s.dir, home, "meta.inf")
			if err := os.RemoveAll(filepath.Join(s.dir, "ledger", "meta")); err != nil {
				t.Fatal(err)
			}
			flipByte(t, meta)
			s.launch()
			code := func(path string) func() int { return func() int { return getOrNothing(s.admin(path)).status } }
			for what, check := range map[string]struct {
				got  func() int
				want int
			}{
				"/readyz/boot":        {code("/readyz/boot"), c.bootReady},
				"the plain host":      {code("/api/v1/ignition?mac=02:00:00:00:00:01"), c.plain},
				"the host with image": {code("/api/v1/ignition?mac=02:00:00:00:00:02"), c.imaged},
				"the API":             {code("/api/v1/" + c.resource), c.api},
			} {
				deadline := time.Now().Add(10 * time.Second)
				for check.got() != check.want {
					if time.Now().After(deadline) {
						t.Fatalf("%s: %d, want %d", what, check.got(), check.want)
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
			if c.api == 503 {
				s.namesRemedy("/api/v1/"+c.resource, c.bucket)
			}
			if c.script != "" {
				if a := get(t, s.admin("/ipxe?mac=02:00:00:00:00:02")); !strings.Contains(a.body, c.script) {
					t.Errorf("the boot script has no %q: %d %s", c.script, a.status, a.body)
				}
			}
			if says, ok := damageSays[c.bucket]; ok {
				testkit.Until(t, says[0]+" says "+says[1], func() bool {
					return strings.Contains(get(t, s.admin(says[0])).body, says[1])
				})
			}
			for _, want := range []string{c.bucket, "meta.inf"} {
				if !strings.Contains(s.log.String(), want) {
					t.Errorf("the log has no %q", want)
				}
			}
			if a := get(t, s.url("/metrics")); !strings.Contains(a.body, `glowplug_store_set_aside{bucket="`+c.bucket+`"} 1`) {
				t.Error("no metric names the bucket")
			}
			if code := s.terminate(); code != 0 {
				t.Fatalf("exit code %d", code)
			}
			aside, _ := filepath.Glob(filepath.Join(s.dir, "damaged", "KV_"+c.bucket+"-*"))
			if len(aside) != 1 {
				t.Fatalf("set aside: %v", aside)
			}
			if c.bucket == "EVENTS" || c.bucket == "GLOWPLUG" {
				if err := os.RemoveAll(aside[0]); err != nil {
					t.Fatal(err)
				}
				return
			}
			out := s.acceptLoss()
			if strings.Contains(out, "lost: ") || !strings.Contains(out, "accepted: ") {
				t.Errorf("with its description a bucket has lost objects: %s", out)
			}
			if err := os.RemoveAll(aside[0]); err != nil {
				t.Fatal(err)
			}
		})
	}
	s.restart()
	for _, mac := range []string{"1", "2"} {
		if a := get(t, s.admin("/api/v1/ignition?mac=02:00:00:00:00:0"+mac)); a.status != http.StatusOK {
			t.Errorf("after all was put back: %d %s", a.status, a.body)
		}
	}
	if out := s.kubectl("", "get", "bmh,ign,cdrom", "-o", "name"); strings.Count(out, "\n") != 4 {
		t.Errorf("after all was put back there is: %s", out)
	}
}

// TestAdoptGivesUpNoDamagedBucket: who adopts the rest of a store does not lose the bucket
// that is damaged. It stays missing, machines are told to wait, and it can be put back.
func TestAdoptGivesUpNoDamagedBucket(t *testing.T) {
	needs(t)
	s := start(t)
	s.kubectl(damageObjects+"---\n"+configFor("a"), "apply", "-f", "-")
	if code := s.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	home := filepath.Join(s.dir, "nats", "jetstream", "$G", "streams", "KV_BAREMETALHOSTS")
	good := map[string]string{}
	for _, name := range []string{"meta.inf", "meta.sum"} {
		good[name] = read(t, filepath.Join(home, name))
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "ledger", "meta")); err != nil {
		t.Fatal(err)
	}
	flipByte(t, filepath.Join(home, "meta.inf"))
	for range 2 { // the first sets the bucket aside
		if out, err := exec.Command(program, "store", "adopt", "--data-dir", s.dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	s.launch()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		a := getOrNothing(s.admin("/api/v1/ignition?mac=02:00:00:00:00:01"))
		if a.status == http.StatusServiceUnavailable && strings.Contains(s.log.String(), "damaged/KV_BAREMETALHOSTS-") {
			break
		}
		if a.status == http.StatusOK || a.status == http.StatusNotFound || time.Now().After(deadline) {
			t.Fatalf("a machine is answered %d without the bucket of hosts", a.status)
		}
	}
	if a := get(t, s.admin("/api/v1/baremetalhosts")); a.status != http.StatusServiceUnavailable {
		t.Errorf("the API answers %d: %s", a.status, a.body)
	}
	if code := s.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	aside, _ := filepath.Glob(filepath.Join(s.dir, "damaged", "KV_BAREMETALHOSTS-*"))
	if len(aside) != 1 {
		t.Fatalf("set aside: %v", aside)
	}
	for name, content := range good {
		write(t, filepath.Join(aside[0], name), content)
	}
	if err := os.Rename(aside[0], home); err != nil {
		t.Fatal(err)
	}
	s.restart()
	if a := get(t, s.admin("/api/v1/ignition?mac=02:00:00:00:00:01")); a.status != http.StatusOK {
		t.Errorf("after it was put back: %d %s", a.status, a.body)
	}
}

// TestDamagedMetaFileIsRestored damages the meta files of all buckets at once: the
// server restores them from its copies, says so, and has everything.
func TestDamagedMetaFileIsRestored(t *testing.T) {
	needs(t)
	s := start(t)
	s.kubectl(damageObjects+"---\n"+configFor("a"), "apply", "-f", "-")
	s.kill()
	s.restart() // the first start has made the bucket of the identity: the second copies its file
	s.kill()
	metas, err := filepath.Glob(filepath.Join(s.dir, "nats", "jetstream", "$G", "streams", "*", "meta.inf"))
	if err != nil || len(metas) < 9 {
		t.Fatalf("the meta files are %v, %v", metas, err)
	}
	for _, meta := range metas {
		flipByte(t, meta)
	}
	s.launch()
	s.waitReady()
	if n := strings.Count(s.log.String(), "restored from a copy"); n != len(metas) {
		t.Errorf("%d of %d files were restored:\n%s", n, len(metas), s.log)
	}
	if a := get(t, s.url("/metrics")); strings.Contains(a.body, "glowplug_store_set_aside{") {
		t.Error("a bucket was set aside")
	}
	if out := s.kubectl("", "get", "bmh,ign,cdrom", "-o", "name"); strings.Count(out, "\n") != 4 {
		t.Errorf("after the restoration there is: %s", out)
	}
	if a := get(t, s.admin("/api/v1/ignition?mac=02:00:00:00:00:01")); a.status != http.StatusOK {
		t.Errorf("a machine is answered %d %s", a.status, a.body)
	}
}

// acceptLoss accepts the loss of a stopped server, and returns what the command says.
func (s *server) acceptLoss() string {
	s.t.Helper()
	out, err := exec.Command(program, "store", "accept-loss", "--data-dir", s.dir).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// namesRemedy waits for an answer that names the damaged file of a bucket and how to
// get the bucket back. To adopt the store would create it again, empty.
func (s *server) namesRemedy(path, bucket string) {
	s.t.Helper()
	var body string
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(body,
		"damaged"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("the API does not say that the bucket is damaged: %s", body)
		}
		body = get(s.t, s.admin(path)).body // before the bucket was looked for: it was not read yet
	}
	for _, want := range []string{bucket, "meta.inf", "Stop the server and restore the data directory from a backup",
		"`glowplug store accept-loss`"} {
		if !strings.Contains(body, want) {
			s.t.Errorf("the API's answer has no %q: %s", want, body)
		}
	}
	if strings.Contains(body+s.log.String(), "adopt") {
		s.t.Errorf("the wrong remedy is named: %s\n%s", body, s.log)
	}
}

// getOrNothing returns an answer without a status while no server listens.
func getOrNothing(url string) answer {
	client := http.Client{Timeout: 30 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return answer{}
	}
	resp.Body.Close()
	return answer{status: resp.StatusCode}
}

func flipByte(t *testing.T, path string) {
	t.Helper()
	raw := []byte(read(t, path))
	raw[len(raw)/2] ^= 1
	write(t, path, string(raw))
}
