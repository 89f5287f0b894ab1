package app

import (
	"net"
	"slices"
	"testing"
)

// TestCertificateCoversTheListenAddress: clients of the address of --listen-tls find it in
// the certificate, also one of no interface, such as 127.0.0.77.
func TestCertificateCoversTheListenAddress(t *testing.T) {
	for listen, want := range map[string][]string{"127.0.0.77:0": {"127.0.0.77"}, ":0": nil, "0.0.0.0:0": nil} {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		a := App{doors: []*door{{name: "http", listener: l}, {name: "https", listener: l}}}
		if got := a.listenNames(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", listen, got, want)
		}
	}
}
