package remote

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestAttacks tries to reach what the list does not name. Nothing may be connected to
// but what a case says.
func TestAttacks(t *testing.T) {
	names := map[string][]string{
		"base.example":     {"198.51.100.7"},
		"loop.example":     {"127.0.0.1"},
		"loop6.example":    {"::1"},
		"mapped.example":   {"::ffff:127.0.0.1"},
		"meta.example":     {"169.254.169.254"},
		"nat64.example":    {"64:ff9b::a9fe:a9fe"},
		"sixto4.example":   {"2002:7f00:1::"},
		"compat.example":   {"::127.0.0.1"},
		"zero.example":     {"0.0.0.0"},
		"link.example":     {"fe80::1"},
		"many.example":     {"224.0.0.1"},
		"both.example":     {"127.0.0.1", "198.51.100.8"},
		"inner.example":    {"10.1.2.3"},
		"localhost":        {"127.0.0.1", "::1"},
		"2130706433":       {"127.0.0.1"}, // as some resolvers read it
		"0177.0.0.1":       {"127.0.0.1"},
		"0x7f.1":           {"127.0.0.1"},
		"127.1":            {"127.0.0.1"},
		"evil.example":     {"203.0.113.66"},
		"a.files.example":  {"198.51.100.9"},
		"xfiles.example":   {"203.0.113.66"},
		"aws6.example":     {"fd00:ec2::254"},
		"private6.example": {"fd00::7"},
	}
	for _, c := range []struct {
		allow, source string
		want          string // the address that is connected to, or a part of the error
	}{
		{"base.example", "http://base.example/a", "198.51.100.7:80"},
		{"BASE.example.", "http://Base.Example/a", "198.51.100.7:80"},
		{"base.example", "http://base.example.:8080/a", "198.51.100.7:8080"},
		{"198.51.100.0/24", "http://base.example/a", "198.51.100.7:80"},
		{"198.51.100.7", "http://[::ffff:198.51.100.7]/a", "198.51.100.7:80"},
		{"*.files.example", "http://a.files.example/a", "198.51.100.9:80"},
		{"both.example", "http://both.example/a", "198.51.100.8:80"},
		{"127.0.0.0/8", "http://loop.example/a", "127.0.0.1:80"},
		{"127.0.0.1", "http://2130706433/a", "127.0.0.1:80"},
		{"169.254.169.254", "http://meta.example/a", "169.254.169.254:80"},
		{"::1", "http://[::1]/a", "[::1]:80"},
		{"inner.example", "http://inner.example/a", "10.1.2.3:80"},
		{"fd00::/16", "http://private6.example/a", "[fd00::7]:80"},

		{"", "http://base.example/a", "fetching is off"},
		{"base.example", "http://evil.example/a", "--allow-fetch=evil.example"},
		{"base.example", "http://base.example@evil.example/a", "--allow-fetch=evil.example"},
		{"base.example", "http://base.example%40evil.example/a", "no valid config"},
		{"base.example", "http://evil.example#base.example/a", "--allow-fetch=evil.example"},
		{"base.example", "http://evil.example?base.example/a", "--allow-fetch=evil.example"},
		{"base.example", `http://evil.example\@base.example/a`, "no valid config"},
		{"base.example", "http://127.0.0.1/a", "a loopback address"},
		{"base.example", "http://198.51.100.7/a", "does not name it"}, // the name, not its address
		{"*.files.example", "http://xfiles.example/a", "does not name it"},
		{"*.files.example", "http://files.example/a", "does not name it"},
		{"loop.example", "http://loop.example/a",
			"what loop.example resolves to is a loopback address, which --allow-fetch has to name as such: " +
				"--allow-fetch=127.0.0.0/8"},
		{"loop6.example", "http://loop6.example/a", "a loopback address"},
		{"localhost", "http://localhost/a", "a loopback address"},
		{"mapped.example", "http://mapped.example/a", "a loopback address"},
		{"0.0.0.0/0", "http://mapped.example/a", "a loopback address"},
		{"::/0", "http://[::ffff:7f00:1]/a", "a loopback address"},
		{"0.0.0.0/0", "http://2130706433/a", "a loopback address"},
		{"0.0.0.0/0", "http://0177.0.0.1/a", "a loopback address"},
		{"0.0.0.0/0", "http://0x7f.1/a", "a loopback address"},
		{"0.0.0.0/0", "http://127.1/a", "a loopback address"},
		{"0.0.0.0/0", "http://169.254.169.254/latest/meta-data", "the metadata service of a cloud"},
		{"169.254.0.0/16", "http://169.254.169.254/latest/meta-data", "the metadata service of a cloud"},
		{"0.0.0.0/0", "http://169.254.1.1/a", "a link-local address"},
		{"meta.example", "http://meta.example/a", "the metadata service of a cloud"},
		{"::/0", "http://nat64.example/a", "the metadata service of a cloud"},
		{"::/0", "http://sixto4.example/a", "a loopback address"},
		{"::/0", "http://compat.example/a", "a loopback address"},
		{"::/0", "http://aws6.example/a", "the metadata service of a cloud"},
		{"fd00::/16", "http://aws6.example/a", "the metadata service of a cloud"},
		{"0.0.0.0/0", "http://zero.example/a", "an unspecified address"},
		{"::/0", "http://[::]/a", "an unspecified address"},
		{"::/0", "http://link.example/a", "a link-local address"},
		{"::/0", "http://[fe80::1%25eth0]/a", "a link-local address"},
		{"0.0.0.0/0", "http://many.example/a", "a multicast address"},
		{"0.0.0.0/0", "http://255.255.255.255/a", "the broadcast address"},
		{"0.0.0.0/0", "tftp://loop.example/a", "a loopback address"},
		{"base.example", "tftp://inner.example/a", "does not name it"},
		{"base.example", "s3://bucket/a", "does not name it"},
		{"base.example", "gs://bucket/a", "does not name it"},
		{"base.example", "file:///etc/passwd", "no valid config"},
		{"base.example", "gopher://base.example/a", "no valid config"},
	} {
		t.Run(c.allow+" "+c.source, func(t *testing.T) {
			var allow []string
			if c.allow != "" {
				allow = []string{c.allow}
			}
			r := rendererOf(t, Options{Allow: mustAllow(t, allow...), Timeout: 5 * time.Second})
			var dialled string
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r.dialer.Lookup = lookup(names)
			r.dialer.Connect = func(_ context.Context, _, address string) (net.Conn, error) {
				dialled = address
				cancel()
				return nil, fmt.Errorf("stop")
			}
			_, err := r.Render(ctx, "rack/node", []byte(merging(c.source)), "")
			if dialled != "" {
				if dialled != c.want {
					t.Errorf("connected to %s", dialled)
				}
				return
			}
			has(t, err.Error(), c.want)
		})
	}
}

func lookup(names map[string][]string) func(context.Context, string) ([]netip.Addr, error) {
	return func(_ context.Context, host string) ([]netip.Addr, error) {
		var all []netip.Addr
		for _, a := range names[strings.ToLower(strings.TrimSuffix(host, "."))] {
			all = append(all, netip.MustParseAddr(a))
		}
		if all == nil {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		return all, nil
	}
}

// TestRebinding has a name server that answers otherwise the second time: what was
// checked is what is connected to.
func TestRebinding(t *testing.T) {
	r := renderer(t, "base.example")
	asked := 0
	r.dialer.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		if asked++; asked == 1 {
			return []netip.Addr{netip.MustParseAddr("198.51.100.7")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	var dialled []string
	r.dialer.Connect = func(_ context.Context, _, address string) (net.Conn, error) {
		dialled = append(dialled, address)
		return nil, fmt.Errorf("refused")
	}
	e := refuse(t, r, merging("http://base.example/a"))
	if e.Kind != Refused || len(dialled) != 1 || dialled[0] != "198.51.100.7:80" {
		t.Error(e, dialled)
	}
}

// TestRedirects are checked like the first request, each of them.
func TestRedirects(t *testing.T) {
	w := serve(t)
	secret := w.page("/secret", with(config(), "/a", "1"))
	_, port, _ := strings.Cut(strings.TrimPrefix(w.URL, "http://"), ":")
	hop := func(to string) string {
		return w.handle("/hop", http.RedirectHandler(to, http.StatusFound).ServeHTTP)
	}
	public := "http://base.example:" + port
	r := func(allow string) *Renderer {
		r := renderer(t, allow)
		r.dialer.Lookup = lookup(map[string][]string{"base.example": {"198.51.100.7"}, "loop.example": {"127.0.0.1"}})
		connect := r.dialer.Connect
		r.dialer.Connect = func(ctx context.Context, network, address string) (net.Conn, error) {
			// The one public server there is stands on loopback.
			return connect(ctx, network, strings.Replace(address, "198.51.100.7", "127.0.0.1", 1))
		}
		return r
	}
	for _, to := range []string{secret, strings.Replace(secret, "127.0.0.1", "[::ffff:127.0.0.1]", 1),
		"http://loop.example:" + port + "/secret",
		"http://169.254.169.254/latest", "http://10.0.0.1/a", "//127.0.0.1:" + port + "/secret"} {
		hop(to)
		before := len(w.asked())
		e := refuse(t, r("base.example"), merging(public+"/hop"))
		if e.Kind != Refused || len(w.asked())-before != 1 {
			t.Errorf("%s: %v, %d requests", to, e, len(w.asked())-before)
		}
	}
	hop("/secret")
	if got := filesOf(t, render(t, r("base.example"), merging(public+"/hop"))); got != "/a=1" {
		t.Error(got)
	}
	hop("/hop")
	before := len(w.asked())
	has(t, refuse(t, r("base.example"), merging(public+"/hop")).Error(), "it redirects more than 10 times")
	if asked := len(w.asked()) - before; asked != 11 {
		t.Errorf("%d requests", asked)
	}
	hop("file:///etc/passwd")
	has(t, refuse(t, renderer(t), merging(w.URL+"/hop")).Error(), "it redirects to what is neither http nor https")
}

// TestOnBehalf marks every request as made for another, so that no server on this
// machine takes it for its operator's.
func TestOnBehalf(t *testing.T) {
	w := serve(t)
	hop := w.handle("/hop", http.RedirectHandler(w.page("/a", config()), http.StatusFound).ServeHTTP)
	render(t, renderer(t), merge1(hop, `, "httpHeaders": [{"name": "Via", "value": "own"}]`))
	for _, r := range w.asked() {
		if r.Header.Get("Via") != "1.1 glowplug" {
			t.Errorf("%s: %v", r.URL, r.Header)
		}
	}
}
