package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/testkit"
	"glowplug/test/launch"
)

// loot is what an attacker is after: keys of a metadata service.
const loot = `{"AccessKeyId": "AKIAEXAMPLE", "SecretAccessKey": "hunter2"}`

// asking is a web server on loopback that counts who asks it.
func asking(t *testing.T) (url string, asked func() string) {
	t.Helper()
	log := &launch.Output{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(log, "%s %s\n", r.Method, r.URL)
		_, _ = io.WriteString(w, loot)
	}))
	t.Cleanup(web.Close)
	return web.URL, log.String
}

// TestImageSources is an author's way to what the server can reach: the digest of a page
// from the status of an ISCSICdrom, the page as the kernel of a release with that digest,
// and the kernel as any machine reads it. The pages are a metadata service's and the
// server's own API's. No step of it works, nor by a proxy that the server's environment
// names.
func TestImageSources(t *testing.T) {
	needs(t)
	metadata, asked := asking(t)
	proxy, passed := asking(t)
	t.Setenv("HTTP_PROXY", proxy)
	t.Setenv("http_proxy", proxy)
	isos := t.TempDir()
	s := start(t, "--iso-dir", isos, "--iscsi-listen", "127.0.0.1:"+freePort(t))
	s.kubectl("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: vault, namespace: default}\ndata: {password: hunter2}\n",
		"apply", "-f", "-")
	own := s.admin("/api/v1/namespaces/default/configmaps/vault")
	page := get(t, s.admin("/api/v1/namespaces/default/configmaps/vault")).body
	for name, place := range map[string]string{"metadata": metadata + "/keys", "own": own,
		"proxy": "http://169.254.169.254/keys"} {
		s.kubectl(fmt.Sprintf(`
apiVersion: v1
kind: ISCSICdrom
metadata: {name: digest-%s, namespace: default}
spec: {url: %q, sha256: "%064d"}
`, name, place, 7), "apply", "-f", "-")
		text := page
		if name != "own" {
			text = loot
		}
		sum := sha256.Sum256([]byte(text))
		file := map[string]string{"location": place, "sha256": hex.EncodeToString(sum[:])}
		folder := streamFolder{t: t}
		s.kubectl(folder.release(name, "44.20261101.3.0", map[string]any{"pxe": map[string]any{"kernel": file,
			"initramfs": file}}), "apply", "-f", "-")
		s.kubectl(fmt.Sprintf(`
apiVersion: v1
kind: ISCSICdrom
metadata: {name: kernel-%s, namespace: default}
spec: {stream: {name: %[1]s, format: pxe}}
`, name), "apply", "-f", "-")
	}
	all := func(want map[string]string) {
		t.Helper()
		for name, message := range want {
			testkit.Until(t, name+" is refused", func() bool {
				got := s.kubectl("", "get", "cdrom", name, "-o", "jsonpath={.status.phase} {.status.errorMessage}")
				return strings.HasPrefix(got, "Error ") && strings.Contains(got, message)
			})
			for _, path := range []string{"/files/kernel", "/files/initramfs", ""} {
				if a := get(t, s.url("/iso/default/"+name+path)); a.status == http.StatusOK || strings.Contains(a.body, "hunter2") {
					t.Errorf("%s%s: %d %s", name, path, a.status, a.body)
				}
			}
		}
		told := s.kubectl("", "get", "cdrom,events", "-o", "jsonpath={.items[*].status} {.items[*].message}") + s.log.String()
		for _, digest := range []string{page, loot} {
			sum := sha256.Sum256([]byte(digest))
			if strings.Contains(told, "SHA-256 is "+hex.EncodeToString(sum[:])) || strings.Contains(told, "hunter2") {
				t.Errorf("it is told: %s", told)
			}
		}
		if log := passed(); log != "" {
			t.Errorf("the proxy was asked:\n%s", log)
		}
		holdsNot(t, isos, "hunter2")
	}
	const loopback = "127.0.0.1 is a loopback address, which --allow-image-fetch has to name as such: " +
		"--allow-image-fetch=127.0.0.0/8"
	const clouds = "169.254.169.254 is the metadata service of a cloud"
	all(map[string]string{
		"digest-metadata": "spec.url: " + loopback, "digest-own": "spec.url: " + loopback, "digest-proxy": "spec.url: " +
			clouds,
		"kernel-metadata": "spec.stream: " + loopback, "kernel-own": "spec.stream: " + loopback,
		"kernel-proxy": "spec.stream: " + clouds,
	})
	if log := asked(); log != "" {
		t.Errorf("it was asked:\n%s", log)
	}

	// The operator names loopback: what is read there is still no kernel, and the server's
	// own API gives no caller the rights of an operator.
	s.terminate()
	s.args = append(s.args, "--allow-image-fetch", "127.0.0.0/8")
	s.restart()
	all(map[string]string{
		"digest-metadata": "its SHA-256 is not 0000", "digest-own": "the server answered 401 Unauthorized",
		"digest-proxy":    clouds,
		"kernel-metadata": "its kernel does not begin like", "kernel-own": "the server answered 401 Unauthorized",
		"kernel-proxy": clouds,
	})
	if asked() == "" {
		t.Error("it was not asked")
	}
}

// holdsNot fails where a file below a folder has a text in it, or others can read what the
// server keeps there.
func holdsNot(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // it was on its way
		}
		if err != nil || path == dir {
			return err
		}
		if info, err := entry.Info(); err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %s", path, info.Mode())
		}
		if entry.IsDir() {
			return nil
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), text) {
			t.Errorf("%s has it", path)
		}
		if os.IsNotExist(err) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
