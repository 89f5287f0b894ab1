package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"glowplug/internal/testkit"
)

const kickstartObjects = `
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: el9, namespace: rack}
spec: {ip: 127.0.0.13}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: el9, namespace: rack}
spec:
  type: kickstart
  format: kickstart
  config: "rootpw --iscrypted secret-of-a-kickstart\n"
  selector: {matchIPs: [127.0.0.13]}
`

// TestConfigsOverHTTPSAlone: plain HTTP gives a pointer, with the CA by which the client verifies the server, and
// the request that it names gets the config. An installer that cannot be told a CA is refused.
func TestConfigsOverHTTPSAlone(t *testing.T) {
	needs(t, "curl")
	s := start(t, "--configs-over-https")
	planted.plant("secret-of-a-kickstart")
	s.kubectl(provisioningObjects+kickstartObjects, "apply", "-f", "-")
	const target = "/api/v1/ignition?role="
	status, body := s.from("127.0.0.11", http.MethodGet, target)
	var pointer struct {
		Ignition struct {
			Config   struct{ Replace struct{ Source string } }
			Security struct {
				TLS struct{ CertificateAuthorities []struct{ Source string } }
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &pointer); err != nil || status != "200" {
		t.Fatalf("%v: %s %s", err, status, body)
	}
	source := pointer.Ignition.Config.Replace.Source
	if source != "https://"+net.JoinHostPort("127.0.0.1", s.tls)+target || strings.Contains(body, "1.4.0") {
		t.Errorf("pointer: %s", body)
	}
	pool := x509.NewCertPool()
	for _, ca := range pointer.Ignition.Security.TLS.CertificateAuthorities {
		pem, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(ca.Source, "data:;base64,"))
		if err != nil || !pool.AppendCertsFromPEM(pem) {
			t.Fatalf("%v: %s", err, ca.Source)
		}
	}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 11)}}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true,
	}}
	answer, err := client.Get(source)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	config, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(config), `"version":"3.3.0"`) {
		t.Errorf("over HTTPS: %d %s %v", answer.StatusCode, config, err)
	}
	testkit.Until(t, "one request is counted, that over HTTPS", func() bool {
		return s.kubectl("", "get", "bmh", "one", "-n", "rack", "-o", "jsonpath={.status.provisioning.fetches}") == "1"
	})

	status, body = s.from("127.0.0.13", http.MethodGet, "/api/v1/kickstart")
	if status != "403" || !strings.Contains(body, "to https://127.0.0.1:"+s.tls+"/api/v1/kickstart") {
		t.Errorf("kickstart: %s %s", status, body)
	}
	testkit.Until(t, "the refusal is an event", func() bool {
		out := s.kubectl("", "get", "events", "-n", "rack", "--field-selector", "reason=PlainHTTPRefused")
		return strings.Contains(out, "a request from 127.0.0.13 over plain HTTP for config rack/el9 was refused")
	})
	if out := s.glowplug("explain", "el9", "-n", "rack"); !strings.Contains(out,
		"which has Ignition ask over HTTPS, or 403 for a kickstart (--configs-over-https)") {
		t.Errorf("explain: %s", out)
	}
}
