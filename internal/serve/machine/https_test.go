package machine

import (
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/model"
	"glowplug/internal/serve/peer"
)

func overHTTPS(o *Options) {
	o.HTTPS = &HTTPS{
		Port: 8443, Authorities: func() [][]byte { return [][]byte{[]byte("CA")} },
		Verify: func(host string) error {
			if host == "boot.lan" {
				return errors.New("not in the certificate")
			}
			return nil
		},
		Local: func(r *http.Request) bool { return r.Header.Get("Local") != "" },
	}
	o.Resolver = peer.NewResolver(peer.ResolverOptions{
		Neighbors: identity.NeighborsOff, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")},
	})
}

// TestConfigsOverHTTPSAlone: no answer over plain HTTP has anything of a config.
func TestConfigsOverHTTPSAlone(t *testing.T) {
	kickstart := changed(func(c *model.Config) { c.Type = "kickstart"; c.Artifact = []byte("lang en_US\n") })
	// "Q0E=" is "CA" in base64.
	const pointer = `{"ignition":{"version":"3.0.0","config":{"replace":{"source":` +
		`"https://127.0.0.1:8443/api/v1/ignition?mac=52-54-00-00-00-01\u0026token=x"}},` +
		`"security":{"tls":{"certificateAuthorities":[{"source":"data:;base64,Q0E="}]}}}}`
	const query = "?mac=52-54-00-00-00-01&token=x"
	for _, c := range []struct {
		name, method, path, accept string
		decision                   decide.ConfigDecision
		status                     int
		body                       string
		notice                     string
	}{
		{name: "Ignition", path: PathIgnition + query, decision: found(testConfig), status: 200, body: pointer},
		{name: "HEAD", method: "HEAD", path: PathIgnition + query, decision: found(testConfig), status: 200},
		{name: "an unknown machine", path: PathIgnition + query, decision: decide.ConfigDecision{Config: testConfig},
			status: 200, body: pointer},
		{name: "a config that is not compiled", path: PathIgnition + query, status: 200, body: pointer,
			decision: found(changed(func(c *model.Config) { c.Artifact = nil }))},
		{name: "an old Ignition", path: PathIgnition, accept: ignition.AcceptOf("2.1.0"), decision: found(testConfig),
			status: 406, body: "config g10/coreos-builder is served over HTTPS alone (--configs-over-https): the " +
				"client reads no Ignition spec in which a config can name a CA, which are 2.2.0 and later\n"},
		{name: "a kickstart", path: PathKickstart + query, decision: found(kickstart), status: 403,
			body: "config g10/coreos-builder is served over HTTPS alone (--configs-over-https): send the same " +
				"request to https://127.0.0.1:8443/api/v1/kickstart, whose certificate the client has to trust\n",
			notice: decide.ReasonPlainHTTP},
		{name: "a kickstart for Ignition", path: PathIgnition, decision: found(kickstart), status: 403,
			notice: decide.ReasonPlainHTTP},
		{name: "a source", path: PathIgnition + "?format=raw", decision: found(testConfig), status: 403,
			notice: decide.ReasonPlainHTTP},
		{name: "a refusal", path: PathIgnition, decision: failing(fault.Refused, "not yours"), status: 403,
			body: "not yours\n"},
		{name: "no config", path: PathIgnition, decision: failing(fault.NoMatch, "no config matches"), status: 404,
			body: "no config matches\n"},
		{name: "no decision", path: PathIgnition, decision: decide.ConfigDecision{}, status: 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.decision, overHTTPS)
			status, body, header := r.do(t, cmp.Or(c.method, http.MethodGet), c.path, "Accept", cmp.Or(c.accept, "*/*"))
			if status != c.status || c.body != "" && body != c.body {
				t.Errorf("got %d %s", status, body)
			}
			for _, text := range []string{testBody, "variant", "lang"} {
				if strings.Contains(body, text) {
					t.Errorf("the answer has %s", text)
				}
			}
			if header.Get("Etag") != "" || header.Get("X-Glowplug-Config") != "" {
				t.Errorf("headers: %v", header)
			}
			if last := r.decider.last; last.Reveal || !last.Pointer {
				t.Error("the content of the config was asked for")
			}
			log := r.logged()
			if notices := strings.Join(r.journal.notices, " "); len(r.journal.served) > 0 || notices != c.notice {
				t.Errorf("journal: %q %q", r.journal.served, r.journal.notices)
			}
			if strings.Contains(log, "token=x") || strings.Contains(log, "config=") {
				t.Errorf("log: %s", log)
			}
		})
	}
}

// TestConfigsOverHTTPS: requests over HTTPS, also to a proxy, and over the admin listener get the config.
func TestConfigsOverHTTPS(t *testing.T) {
	const client, proxy = "192.0.2.1:1", "192.0.2.9:1"
	proto := func(lines ...string) http.Header { return http.Header{"X-Forwarded-Proto": lines} }
	for _, c := range []struct {
		name, from string
		header     http.Header
		isTLS      bool
		config     bool
	}{
		{name: "plain HTTP", from: client},
		{name: "a client that says so itself", from: client, header: proto("https")},
		{name: "HTTPS", from: client, isTLS: true, config: true},
		{name: "HTTPS to a proxy", from: proxy, header: proto("https"), config: true},
		{name: "HTTPS to a proxy and behind it", from: proxy, header: proto("HTTPS"), isTLS: true, config: true},
		{name: "plain HTTP to a proxy", from: proxy, header: proto("http")},
		{name: "plain HTTP to a proxy that uses HTTPS itself", from: proxy, header: proto("http"), isTLS: true},
		{name: "a proxy that does not say", from: proxy, isTLS: true},
		{name: "a line of the client before that of the proxy", from: proxy, header: proto("https", "http")},
		{name: "a line of the client after that of the proxy", from: proxy, header: proto("http", "https")},
		{name: "a list", from: proxy, header: proto("https, http")},
		{name: "the admin listener", from: "127.0.0.1:1", header: http.Header{"Local": {"yes"}}, config: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, found(testConfig), overHTTPS)
			request := httptest.NewRequest(http.MethodGet, PathIgnition, nil)
			request.RemoteAddr = c.from
			if c.header != nil {
				request.Header = c.header
			}
			if c.isTLS {
				request.TLS = &tls.ConnectionState{}
			}
			w := httptest.NewRecorder()
			r.server.ServeHTTP(w, request)
			body, _ := io.ReadAll(w.Body)
			status := http.StatusOK
			if c.from == proxy && !c.config { // the address that the proxy has reached is no use to a machine
				status = http.StatusServiceUnavailable
			}
			if got := string(body) == testBody; got != c.config || w.Code != status {
				t.Errorf("got %d %s", w.Code, body)
			}
		})
	}
}

// TestURLsOfPointers: the URL is that of --http-url if it has one for HTTPS, else made of its host and the port. A
// pointer to a name that is not in the certificate would lead nowhere.
func TestURLsOfPointers(t *testing.T) {
	for _, c := range []struct {
		url, host string
		port      uint16
		want      string
		status    int
	}{
		{"https://boot.lan/glowplug", "boot.lan", 8443, `"https://boot.lan/glowplug/api/v1/ignition"`, 200},
		{"", "other.lan", 8443, `"https://other.lan:8443/api/v1/ignition"`, 200},
		{"", "2001:db8::1", 10443, `"https://[2001:db8::1]:10443/api/v1/ignition"`, 200},
		{"", "", 8443, `"https://127.0.0.1:8443/api/v1/ignition"`, 200},
		{"", "boot.lan", 8443, "the server's certificate is not valid for boot.lan; add it with --tls-san", 503},
	} {
		r := newRig(t, found(testConfig), overHTTPS, func(o *Options) {
			o.HTTPS.URL, o.HTTPS.Host, o.HTTPS.Port = c.url, c.host, c.port
		})
		status, body, _ := r.do(t, http.MethodGet, PathIgnition)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%+v: %d %s", c, status, body)
		}
	}
}

// TestExplainOverHTTPS: an explanation says what a request over plain HTTP receives.
func TestExplainOverHTTPS(t *testing.T) {
	decider, resolver := explainRack(t, decide.Policy{})
	ready := func() bool { return true }
	for query, want := range map[string]string{
		"host=g10/node": "a pointer config, which has Ignition ask over HTTPS (--configs-over-https)",
		"host=g10/ks":   "403 for a kickstart (--configs-over-https)",
		"from=10.9.9.9": "",
	} {
		if e := explained(t, Explain(decider, resolver, ready, true), query); e.PlainHTTP != want {
			t.Errorf("%s: %q, want %q", query, e.PlainHTTP, want)
		}
		if e := explained(t, Explain(decider, resolver, ready, false), query); e.PlainHTTP != "" {
			t.Errorf("%s without the flag: %q", query, e.PlainHTTP)
		}
	}
}
