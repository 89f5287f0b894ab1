package app

import (
	"fmt"
	"io"
	"net"
	"strings"
)

// listening is one door that is open.
type listening struct {
	name string // http, https, admin, metrics or iscsi
	addr net.Addr
}

// banner says, on one screen, where the server listens, where its data lies and
// what to type next.
type banner struct {
	version   string
	doors     []listening
	store     string // where the data lies
	ask       string // a command that asks the API
	manifests string // what became of the manifests; "" where there are none
	try       string // a command that shows a config; "" where there is none
}

func (b banner) write(w io.Writer) {
	fmt.Fprintf(w, "%s\n", b.version)
	for _, d := range b.doors {
		fmt.Fprintf(w, "  %-10s %s\n", d.name, reachable(d.name, d.addr))
	}
	fmt.Fprintf(w, "  %-10s %s\n", "store", b.store)
	if b.manifests != "" {
		fmt.Fprintf(w, "  %-10s %s\n", "manifests", b.manifests)
	}
	fmt.Fprintf(w, "\nAsk the API:\n  %s\n", b.ask)
	if b.try != "" {
		fmt.Fprintf(w, "See what a machine gets:\n  %s\n", b.try)
	}
	fmt.Fprintln(w)
}

// reachable is a URL of a listener: the wildcard is shown with its port.
func reachable(name string, addr net.Addr) string {
	scheme := name
	if name == "admin" || name == "metrics" {
		scheme = "http"
	}
	if addr.Network() == "unix" {
		return unixPrefix + addr.String()
	}
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return fmt.Sprintf("%s://%s (all addresses)", scheme, net.JoinHostPort("127.0.0.1", port))
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// localURL is a listener's URL as a client on this machine uses it.
func localURL(name string, addr net.Addr) string {
	url, _, _ := strings.Cut(reachable(name, addr), " ")
	return url
}
