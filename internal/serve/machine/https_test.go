package machine

import (
	"cmp"
	"crypto/tls"
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
	"glowplug/internal/serve/peer"
	"glowplug/internal/store/snapshot"
)

func overHTTPS(o *Options) {
	o.HTTPS = &HTTPS{
		Port: 8443, Authorities: func() [][]byte { return [][]byte{[]byte("CA")} },
		Local: func(r *http.Request) bool { return r.Header.Get("Local") != "" },
	}
	o.Resolver = peer.NewResolver(peer.ResolverOptions{
		Neighbors: identity.NeighborsOff, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")},
	})
}

// TestConfigsOverHTTPSAlone: no answer over plain HTTP has anything of a config.
func TestConfigsOverHTTPSAlone(t *testing.T) {
	kickstart := changed(func(c *snapshot.Config) { c.Type = "kickstart"; c.Artifact = []byte("lang en_US\n") })
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
			decision: found(changed(func(c *snapshot.Config) { c.Artifact = nil }))},
		{name: "an old Ignition", path: PathIgnition, accept: ignition.AcceptOf("2.1.0"), decision: found(testConfig),
			status: 406, body: "config g10/coreos-builder is served over HTTPS alone (--configs-over-https): the " +
				"client reads no Ignition spec in which a config can name a CA, which are 2.2.0 and later\n"},
		{name: "a kickstart", path: PathKickstart + query, decision: found(kickstart), status: 403,
			body: "config g10/coreos-builder is served over HTTPS alone (--configs-over-https): ask at " +
				"https://127.0.0.1:8443/api/v1/kickstart, with a certificate that the client trusts\n",
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
			if r.decider.last.Reveal {
				t.Error("the values of Secrets were asked for")
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
	for _, c := range []struct {
		name, from string
		header     [2]string
		isTLS      bool
		config     bool
	}{
		{name: "plain HTTP", from: "192.0.2.1:1"},
		{name: "a client that says so itself", from: "192.0.2.1:1", header: [2]string{"X-Forwarded-Proto", "https"}},
		{name: "HTTPS", from: "192.0.2.1:1", isTLS: true, config: true},
		{name: "HTTPS to a proxy", from: "192.0.2.9:1", header: [2]string{"X-Forwarded-Proto", "https"}, config: true},
		{name: "plain HTTP to a proxy", from: "192.0.2.9:1", header: [2]string{"X-Forwarded-Proto", "http"}},
		{name: "the admin listener", from: "127.0.0.1:1", header: [2]string{"Local", "yes"}, config: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, found(testConfig), overHTTPS)
			request := httptest.NewRequest(http.MethodGet, PathIgnition, nil)
			request.RemoteAddr = c.from
			if c.header[0] != "" {
				request.Header.Set(c.header[0], c.header[1])
			}
			if c.isTLS {
				request.TLS = &tls.ConnectionState{}
			}
			w := httptest.NewRecorder()
			r.server.ServeHTTP(w, request)
			body, _ := io.ReadAll(w.Body)
			if got := string(body) == testBody; got != c.config || w.Code != http.StatusOK {
				t.Errorf("got %d %s", w.Code, body)
			}
		})
	}
}

// TestBaseOfHTTPS: the URL is that of --http-url if it has one for HTTPS, else made of its host and the port.
func TestBaseOfHTTPS(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, PathIgnition, nil)
	for want, h := range map[string]HTTPS{
		"https://boot.lan/glowplug":   {URL: "https://boot.lan/glowplug", Host: "boot.lan", Port: 8443},
		"https://boot.lan:8443":       {Host: "boot.lan", Port: 8443},
		"https://[2001:db8::1]:10443": {Host: "2001:db8::1", Port: 10443},
		"https://0.0.0.0:8443":        {Port: 8443},
	} {
		if got := h.base(r); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestExplainOverHTTPS: an explanation says what a request over plain HTTP receives.
func TestExplainOverHTTPS(t *testing.T) {
	decider, resolver := explainRack(t, decide.Policy{})
	for overHTTPS, want := range map[bool]string{true: plainAnswer, false: ""} {
		explain := Explain(decider, resolver, func() bool { return true }, overHTTPS)
		if e := explained(t, explain, "host=g10/node"); e.PlainHTTP != want {
			t.Errorf("%t: %q", overHTTPS, e.PlainHTTP)
		}
	}
}
