package app

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"glowplug/internal/credentials"
)

// listenerAt is a listener of which only the address counts.
type listenerAt struct {
	net.Listener
	addr string
}

func (l listenerAt) Addr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(l.addr)) }

// TestGreetingNamesACommandThatWorks: plain HTTP serves the API at loopback addresses alone.
func TestGreetingNamesACommandThatWorks(t *testing.T) {
	for _, c := range []struct {
		listen   string
		insecure bool
		want     string
	}{
		{"127.0.0.1:8082", false, "http://127.0.0.1:8082/api/v1/ignitionconfigs"},
		{"[::]:8082", false, "http://127.0.0.1:8082/api/v1/ignitionconfigs"},
		{"192.0.2.1:8082", true, "http://192.0.2.1:8082/api/v1/ignitionconfigs"},
		{"192.0.2.1:8082", false, "it needs --listen-tls or --admin-listen"},
	} {
		a := App{
			settings: &settings{}, creds: &credentials.Credentials{},
			listeners: []*httpListener{{name: "http", listener: listenerAt{addr: c.listen}}},
		}
		a.settings.Access.AllowInsecureAPI = c.insecure
		if got := (greeter{&a}).apiCommand(); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestCertificateCoversTheListenAddress: clients of the address of --listen-tls find it in
// the certificate, also one of no interface, such as 127.0.0.77.
func TestCertificateCoversTheListenAddress(t *testing.T) {
	for listen, want := range map[string][]string{"127.0.0.77:0": {"127.0.0.77"}, ":0": nil, "0.0.0.0:0": nil} {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all := listeners{{name: "http", listener: l}, {name: "https", listener: l}}
		if got := all.names(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", listen, got, want)
		}
	}
}
