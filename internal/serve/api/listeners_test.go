package api

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"glowplug/internal/credentials/certtest"
	"glowplug/internal/store/policy"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// caller is a request as a listener would see it.
type caller struct {
	peer, local, host string
	path              string // "": one of the API
	proto             int    // minor version of HTTP/1
	header            http.Header
	tls               *tls.ConnectionState
}

func (c caller) request(listener *Listener) *http.Request {
	r := httptest.NewRequest("GET", cmp.Or(c.path, "/api/v1"), nil)
	r.RemoteAddr, r.Host, r.ProtoMinor, r.TLS = c.peer, c.host, c.proto, c.tls
	if c.header != nil {
		r.Header = c.header
	}
	ctx := r.Context()
	if c.local != "" {
		addr, _ := net.ResolveTCPAddr("tcp", c.local)
		ctx = context.WithValue(ctx, http.LocalAddrContextKey, net.Addr(addr))
	}
	if listener != nil {
		ctx = WithListener(ctx, *listener)
	}
	return r.WithContext(ctx)
}

func TestListenersOfTheAPI(t *testing.T) {
	local := caller{peer: "127.0.0.1:4000", local: "127.0.0.1:8082", host: "127.0.0.1:8082", proto: 1}
	remote := caller{peer: "192.0.2.9:4000", local: "192.0.2.1:8082", host: "192.0.2.1:8082", proto: 1}
	with := func(c caller, header ...string) caller {
		c.header = http.Header{}
		for i := 0; i < len(header); i += 2 {
			c.header.Set(header[i], header[i+1])
		}
		return c
	}
	but := func(change func(*caller)) caller {
		c := local
		change(&c)
		return c
	}
	const token = "Bearer admin-token"
	plain, secure := &Listener{NeedsLoopback: true}, &Listener{}
	tests := []struct {
		name     string
		listener *Listener
		who      caller
		user     string // "" is 401
	}{
		{"plain, local, nothing", plain, local, ""},
		{"plain, local, token", plain, with(local, "Authorization", token), "admin"},
		{"plain, local, wrong token", plain, with(local, "Authorization", "Bearer x"), ""},
		{"plain, local, basic", plain, with(local, "Authorization", "Basic YWRtaW46YWRtaW4tdG9rZW4="), ""},
		{"plain, remote, token", plain, with(remote, "Authorization", token), ""},
		{"plain, remote, insecure allowed, token", &Listener{}, with(remote, "Authorization", token), "admin"},
		{"plain, remote, insecure allowed, nothing", &Listener{}, remote, ""},
		{"tls, remote, token", secure, with(remote, "Authorization", token), "admin"},
		{"tls, remote, nothing", secure, remote, ""},
		{"tls, local, nothing", secure, local, ""},
		{"unmarked, remote, token", nil, with(remote, "Authorization", token), ""},
		{"unmarked, local, token", nil, with(local, "Authorization", token), "admin"},
	}
	admin := &Listener{Admin: true, Admitted: true}
	for name, who := range map[string]caller{
		"itself":             local,
		"by name":            but(func(c *caller) { c.host = "localhost:8082" }),
		"by name, no port":   but(func(c *caller) { c.host = "LOCALHOST" }),
		"another 127":        but(func(c *caller) { c.peer, c.local, c.host = "127.1.2.3:1", "127.4.5.6:80", "127.4.5.6" }),
		"IPv6":               but(func(c *caller) { c.peer, c.local, c.host = "[::1]:1", "[::1]:80", "[::1]:80" }),
		"IPv6 without port":  but(func(c *caller) { c.peer, c.local, c.host = "[::1]:1", "[::1]:80", "[::1]" }),
		"mapped":             but(func(c *caller) { c.peer, c.local = "[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:80" }),
		"a user at a window": with(local, "Sec-Fetch-Site", "none"),
		"a page of its own":  with(local, "Sec-Fetch-Site", "same-origin"),
		"a Unix socket":      but(func(c *caller) { c.peer, c.local, c.host = "@", "", "localhost" }),
		"a foreign token":    with(local, "Authorization", "Bearer of another cluster"),
	} {
		tests = append(tests, struct {
			name     string
			listener *Listener
			who      caller
			user     string
		}{"admin listener: " + name, admin, who, "local-admin"})
	}
	for name, who := range map[string]caller{
		"another name":            but(func(c *caller) { c.host = "attacker.example" }),
		"a name that looks local": but(func(c *caller) { c.host = "localhost.attacker.example" }),
		"an address as a name":    but(func(c *caller) { c.host = "127.0.0.1.nip.io:8082" }),
		"no host":                 but(func(c *caller) { c.host = "" }),
		"a zone":                  but(func(c *caller) { c.host = "[::1%25lo]:80" }),
		"HTTP/1.0 of a proxy":     but(func(c *caller) { c.proto = 0 }),
		"Forwarded":               with(local, "Forwarded", "for=192.0.2.9"),
		"X-Forwarded-For":         with(local, "X-Forwarded-For", "127.0.0.1"),
		"X-Forwarded-Proto":       with(local, "X-Forwarded-Proto", "http"),
		"empty X-Forwarded-Host":  with(local, "X-Forwarded-Host", ""),
		"X-Real-IP":               with(local, "X-Real-IP", "192.0.2.9"),
		"Via":                     with(local, "Via", "1.1 proxy"),
		"Origin":                  with(local, "Origin", "http://attacker.example"),
		"Origin null":             with(local, "Origin", "null"),
		"cross-site":              with(local, "Sec-Fetch-Site", "cross-site"),
		"same-site":               with(local, "Sec-Fetch-Site", "same-site"),
	} {
		tests = append(tests, struct {
			name     string
			listener *Listener
			who      caller
			user     string
		}{"not the admin listener's: " + name, admin, who, ""})
	}
	for name, listener := range map[string]*Listener{
		"another user": {Admin: true, Refusal: "this connection is of user 1000"},
		"no user":      {Admin: true},
	} {
		for who, c := range map[string]caller{"nothing": local, "a token": with(local, "Authorization", token)} {
			tests = append(tests, struct {
				name     string
				listener *Listener
				who      caller
				user     string
			}{"admin listener: " + name + ", " + who, listener, c, ""})
		}
	}

	guard := newGuard(func(token string) bool { return token == "admin-token" }, nil)
	server := &Server{guard: guard, authorizer: newAuthorizer(policy.New(nil))}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			response, ok, err := guard.AuthenticateRequest(test.who.request(test.listener))
			if err != nil || ok != (test.user != "") || ok && response.User.GetName() != test.user {
				t.Fatalf("%v %v %v", response, ok, err)
			}
			if ok && !slices.Contains(response.User.GetGroups(), user.AllAuthenticated) {
				t.Error("authenticated, and not in the group of those who are")
			}
			if server.Believe(test.who.request(test.listener)) != ok {
				t.Error("Believe says otherwise")
			}
			if !ok {
				w := httptest.NewRecorder()
				guard.refuse(w, test.who.request(test.listener))
				if test.listener != nil && test.listener.Admin {
					w = httptest.NewRecorder()
					Guarded(http.NotFoundHandler(), http.HandlerFunc(guard.refuse)).ServeHTTP(w, test.who.request(test.listener))
				}
				if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), `"kind":"Status"`) {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
}

// TestOwnOriginAtTheAdminListener: browsers send an Origin with each write, so its own is taken at the paths of the
// console, and nowhere else: a page of another port of this machine has no rights.
func TestOwnOriginAtTheAdminListener(t *testing.T) {
	admin := &Listener{Admin: true, Admitted: true}
	guard := newGuard(nil, nil)
	const host = "127.0.0.1:8081"
	for _, c := range []struct {
		path, host string
		origins    []string
		taken      bool
	}{
		{"/console/", host, []string{"http://" + host}, true},
		{"/console/unknown/x/delete", host, []string{"http://" + host}, true},
		{"/console/", "localhost:8081", []string{"http://localhost:8081"}, true},
		{"/console/", "[::1]:8081", []string{"http://[::1]:8081"}, true},
		{"/api/v1", host, []string{"http://" + host}, false},
		{"/console", host, []string{"http://" + host}, false},
		{"/consoles/", host, []string{"http://" + host}, false},
		{"/api/v1/console/", host, []string{"http://" + host}, false},
		{"/api/v1/ignition", host, []string{"http://" + host}, false},
		{"/console/", host, []string{"http://127.0.0.1:3000"}, false},
		{"/console/", host, []string{"http://127.0.0.1"}, false},
		{"/console/", host, []string{"http://localhost:8081"}, false},
		{"/console/", host, []string{"https://" + host}, false},
		{"/console/", host, []string{"null"}, false},
		{"/console/", host, []string{""}, false},
		{"/console/", host, []string{"http://" + host, "http://evil.example"}, false},
		{"/console/", host, []string{"http://" + host + ".evil.example"}, false},
		{"/console/", "evil.example:8081", []string{"http://evil.example:8081"}, false}, // by DNS rebinding
	} {
		for _, site := range []string{"", "same-origin", "same-site", "cross-site"} {
			who := caller{peer: "127.0.0.1:4000", local: host, host: c.host, path: c.path, proto: 1,
				header: http.Header{"Origin": c.origins}}
			if site != "" {
				who.header.Set("Sec-Fetch-Site", site)
			}
			_, ok, err := guard.AuthenticateRequest(who.request(admin))
			if want := c.taken && (site == "" || site == "same-origin"); err != nil || ok != want {
				t.Errorf("%s of %s with Origin %q from %q: %v %v", c.path, c.host, c.origins, site, ok, err)
			}
		}
	}
}

// signed makes a certificate; a nil parent makes a CA.
func signed(t *testing.T, name string, usage x509.ExtKeyUsage, parent *x509.Certificate,
	parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	return certtest.Sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name, Organization: []string{"ops"}}, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}, parent, parentKey)
}

func TestClientCertificates(t *testing.T) {
	ca, caKey := signed(t, "CA", x509.ExtKeyUsageAny, nil, nil)
	otherCA, otherKey := signed(t, "other CA", x509.ExtKeyUsageAny, nil, nil)
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	guard := newGuard(nil, func() *x509.CertPool { return pool })
	good, _ := signed(t, "jo", x509.ExtKeyUsageClientAuth, ca, caKey)
	server, _ := signed(t, "glowplug", x509.ExtKeyUsageServerAuth, ca, caKey)
	nameless, _ := signed(t, "", x509.ExtKeyUsageClientAuth, ca, caKey)
	foreign, _ := signed(t, "jo", x509.ExtKeyUsageClientAuth, otherCA, otherKey)
	for name, test := range map[string]struct {
		cert *x509.Certificate
		user string
	}{"client": {good, "jo"}, "server's own": {server, ""}, "nameless": {nameless, ""}, "of another CA": {foreign, ""}} {
		who := caller{peer: "192.0.2.9:1", proto: 1,
			tls: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{test.cert}}}
		response, ok, err := guard.AuthenticateRequest(who.request(nil))
		if err != nil || ok != (test.user != "") {
			t.Errorf("%s: %v %v", name, ok, err)
		} else if ok && (response.User.GetName() != test.user || response.User.GetGroups()[0] != "ops") {
			t.Errorf("%s: %v", name, response.User)
		}
	}
}

func TestUnauthorizedAndForbidden(t *testing.T) {
	a := startOn(t, newStores(t), Listener{NeedsLoopback: true}, func(opts *Options) {
		opts.Explain = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("explained")) })
	})
	for _, path := range []string{"/api", "/apis", "/api/v1", "/openapi/v2", "/openapi/v3", configs, explainPath,
		impactPath, "/metrics", "/nothing"} {
		answer := a.must(http.StatusUnauthorized, "GET", path, nil)
		if status := answer.status(t); status.Reason != metav1.StatusReasonUnauthorized || !strings.Contains(status.Message,
			"admin.kubeconfig") {
			t.Errorf("%s: %+v", path, status)
		}
	}
	a.must(http.StatusUnauthorized, "POST", configs, config("x", goodSource))
	a.must(http.StatusOK, "GET", "/version", nil)
	bearer := []string{"Authorization", "Bearer admin-token"}
	a.must(http.StatusOK, "GET", configs, nil, bearer...)
	if body := a.must(http.StatusOK, "GET", explainPath+"?mac=x", nil, bearer...).body; string(body) != "explained" {
		t.Errorf("%s", body)
	}
	anonymous := append(bearer, "Impersonate-User", "system:anonymous")
	if reason := a.must(http.StatusForbidden, "GET", configs, nil,
		anonymous...).status(t).Reason; reason != metav1.StatusReasonForbidden {
		t.Error(reason)
	}
	a.must(http.StatusForbidden, "GET", explainPath, nil, anonymous...)
	jo := append(bearer, "Impersonate-User", "jo")
	a.must(http.StatusForbidden, "GET", configs, nil, jo...)
	a.bind("view", "jo", bearer...)
	a.must(http.StatusOK, "GET", configs, nil, jo...)
}
