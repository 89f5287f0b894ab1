package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"glowplug/internal/testkit"
)

const tokenObjects = `
apiVersion: v1
kind: Namespace
metadata:
  name: rack
  annotations: {glowplug.dev/provisioning-token: "true"}
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: plain, namespace: rack}
spec:
  isoFile: guest.iso
  kernelArgs: ["ignition.config.url=${glowplug}/api/v1/ignition", "ignition.platform.id=metal"]
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: web, namespace: rack}
spec:
  isoFile: guest.iso
  transport: http
  kernelArgs:
    - ignition.config.url=${glowplug}/api/v1/ignition
    - root=live:${glowplug}/iso/rack/web/files/boot/vmlinuz
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: one, namespace: rack}
spec: {ip: 127.0.0.11, image: plain}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: two, namespace: rack}
spec: {ip: 127.0.0.12, image: web, ipxe: "echo {{.Token}}\n{{.Sanboot}}"}
` + rackConfig

var tokenForm = regexp.MustCompile(`[a-z2-7]{32}`)

// TestNothingWithoutTheTokenOfTheBoot: the script of a machine has a token, in the name of its target and in
// the URLs of the patched kernel arguments. Without it, and with one of an earlier boot, the machine gets
// neither its config nor its image, also after a restart of the server; with it, it does. No log, event,
// metric or line of the audit has it.
func TestNothingWithoutTheTokenOfTheBoot(t *testing.T) {
	needs(t, "curl", "grub-mkrescue", "xorriso", "mformat", "busybox", "modprobe", "iscsi-inq")
	isos, trail := t.TempDir(), filepath.Join(t.TempDir(), "audit.log")
	if err := os.Link(testISO(t), filepath.Join(isos, "guest.iso")); err != nil {
		t.Fatal(err)
	}
	portal := "127.0.0.1:" + freePort(t)
	s := start(t, "--iso-dir", isos, "--iscsi-listen", portal, "--iscsi-portal", portal, "--audit-log-path", trail)
	s.kubectl(tokenObjects, "apply", "-f", "-")
	for _, image := range []string{"plain", "web"} {
		testkit.Until(t, "image "+image+" is ready", func() bool {
			return s.kubectl("", "get", "cdrom", "-n", "rack", image, "-o", "jsonpath={.status.phase}") == "Ready"
		})
	}
	script := func(address string) (script, token string) {
		t.Helper()
		status, body := s.from(address, http.MethodGet, "/ipxe")
		if token = tokenForm.FindString(body); status != "200" || token == "" {
			t.Fatalf("%s: %s\n%s", address, status, body)
		}
		planted.plant(token)
		return body, token
	}
	const ignition = "/api/v1/ignition"
	want := func(address, status, path, text string) string {
		t.Helper()
		got, body := s.from(address, http.MethodGet, path)
		if got != status || !strings.Contains(body, text) {
			t.Errorf("%s %s: %s %s, want %s", address, tokenForm.ReplaceAllString(path, "TOKEN"), got, clipped(body),
				status)
		}
		return body
	}
	want("127.0.0.11", "403", ignition, "this request has no token")
	body, first := script("127.0.0.11")
	iqn := s.kubectl("", "get", "cdrom", "plain", "-n", "rack", "-o", "jsonpath={.status.targetIQN}")
	if !strings.Contains(body, "sanboot iscsi:127.0.0.1::") || !strings.Contains(body, ":"+iqn+":token:"+first+"\n") {
		t.Errorf("the script has no token in the name of the target:\n%s", body)
	}
	want("127.0.0.11", "200", ignition+"?token="+first, "ignition")
	s.kill()
	s.restart()
	want("127.0.0.11", "200", ignition+"?token="+first, "ignition")
	_, otherToken := script("127.0.0.12")
	want("127.0.0.11", "403", ignition+"?token="+otherToken, "a token that is not one of this host")

	// iSCSI, as iPXE does it.
	login := func(target string) (string, error) {
		out, err := exec.Command("iscsi-inq", "-i", "iqn.2010-04.org.ipxe:one",
			"iscsi://"+portal+"/"+target+"/0").CombinedOutput()
		return string(out), err
	}
	s.kubectl("", "patch", "bmh", "one", "-n", "rack", "--type=merge", "-p", `{"spec":{"ip":"127.0.0.1"}}`)
	if out, err := login(iqn); err == nil {
		t.Errorf("a login without the token:\n%s", out)
	}
	if out, err := login(iqn + ":token:" + otherToken); err == nil {
		t.Errorf("a login with the token of another host:\n%s", out)
	}
	testkit.Until(t, "a login with the token", func() bool {
		out, err := login(iqn + ":token:" + first)
		return err == nil && out != ""
	})
	s.kubectl("", "patch", "bmh", "one", "-n", "rack", "--type=merge", "-p", `{"spec":{"ip":"127.0.0.11"}}`)

	// HTTP: the path of the image and the URLs in its files have the token.
	body, web := script("127.0.0.12")
	if !strings.Contains(body, "echo "+web+"\n") || !strings.Contains(body, "/iso/rack/web~"+web+".iso") {
		t.Errorf("the script has no token:\n%s", body)
	}
	want("127.0.0.12", "403", "/iso/rack/web.iso", "this request has no token")
	want("127.0.0.12", "403", "/iso/rack/web~"+first+".iso", "a token that is not one of this host")
	grub := want("127.0.0.12", "200", "/iso/rack/web~"+web+"/files/boot/grub/grub.cfg", ignition+"?token="+web)
	if !strings.Contains(grub, "/iso/rack/web~"+web+"/files/boot/vmlinuz") || strings.Contains(grub, "placeholder") {
		t.Errorf("the URL of the image has no token:\n%s", grub)
	}
	want("127.0.0.13", "200", "/iso/rack/web/files/boot/grub/grub.cfg", ignition) // no host; the image is for everybody

	// The next boot.
	want("127.0.0.11", "200", ignition+"?token="+first, "ignition")
	s.kubectl("", "annotate", "bmh", "one", "-n", "rack", "glowplug.dev/rearm=1")
	_, second := script("127.0.0.11")
	if second == first {
		t.Error("two boots have one token")
	}
	want("127.0.0.11", "403", ignition+"?token="+first, "the token of an earlier boot")
	want("127.0.0.11", "200", ignition+"?token="+second, "ignition")
	testkit.Until(t, "the refused requests are events", func() bool {
		return strings.Contains(s.kubectl("", "get", "events", "-n", "rack", "--field-selector", "reason=TokenRefused"),
			"the token of an earlier boot")
	})

	audit, err := os.ReadFile(trail)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"the log": s.log.String(), "the metrics": get(t, s.admin("/metrics")).body, "the audit": string(audit),
		"the events":    s.kubectl("", "get", "events", "-A", "-o", "yaml"),
		"the host":      s.kubectl("", "get", "bmh", "-A", "-o", "yaml"),
		"the image":     s.kubectl("", "get", "cdrom", "-A", "-o", "yaml"),
		"what explains": s.glowplug("explain", "one", "-n", "rack", "-o", "json"),
	} {
		for _, token := range []string{first, second, web} {
			if strings.Contains(text, token) {
				t.Errorf("%s has a token", what)
			}
		}
	}
	for _, token := range []string{first, second, web} {
		holdsNot(t, s.dir, token)
	}
}

// clipped is the beginning of a body for the message of a test.
func clipped(body string) string { return body[:min(len(body), 300)] }
