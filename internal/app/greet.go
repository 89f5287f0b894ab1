package app

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"k8s.io/apimachinery/pkg/util/wait"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/serve/console"
	"glowplug/internal/serve/machine"
	"glowplug/internal/version"
)

// greeter prints on the terminal that the server is ready, and how to try it.
type greeter struct{ *App }

// greet waits for the store, applies the manifests, and prints the banner: where the
// server listens, where its data is, and which commands to type next.
func (a greeter) greet(ctx context.Context) {
	a.notify("STATUS=Waiting for the store: " + a.backend.Where())
	if !a.awaitStore(ctx) {
		return
	}
	var banner strings.Builder
	row := func(name, value string) { fmt.Fprintf(&banner, "  %-10s %s\n", name, value) }
	fmt.Fprintln(&banner, version.Line())
	for _, p := range a.places() {
		row(p.name, p.text)
	}
	example := ""
	if len(a.settings.Manifests) > 0 {
		count := applyManifests(ctx, a.own, a.settings.Manifests, a.log)
		result := fmt.Sprintf("%d applied", count.good)
		if count.bad > 0 {
			result += fmt.Sprintf(", %d not: see the log", count.bad)
		}
		row("manifests", result)
		example = a.example(count.macs)
	}
	a.seeded.Store(true)
	a.notify(daemon.SdNotifyReady + "\nSTATUS=Answering machines")
	a.sink.Flush()
	fmt.Fprintf(&banner, "\nAsk the API:\n  %s\n", a.apiCommand())
	if page := a.consolePage(); page != "" {
		fmt.Fprintf(&banner, "Look at the console:\n  %s\n", page)
	}
	if example != "" {
		fmt.Fprintf(&banner, "See what a machine gets:\n  %s\n", example)
	}
	fmt.Fprintln(a.stdout, banner.String())
}

// placed is where a part of the server is.
type placed struct{ name, text string }

// places are where the server listens and where its data is.
func (a *App) places() (all []placed) {
	for _, d := range a.listeners {
		all = append(all, placed{d.name, reachable(d.name, d.listener.Addr())})
	}
	if a.portalListener != nil {
		all = append(all, placed{"iscsi", reachable("iscsi", a.portalListener.Addr())})
	}
	for _, name := range a.settings.PXE.Interfaces {
		all = append(all, placed{"pxe", name + ": " + given(a.loaders)})
	}
	for _, r := range a.settings.leasing.ranges {
		all = append(all, placed{"dhcp", r.String()})
	}
	return append(all, placed{"store", a.backend.Where()})
}

// awaitStore waits until the store has been read, except for what is lost of it.
func (a greeter) awaitStore(ctx context.Context) bool {
	reminder := time.AfterFunc(5*time.Second, func() {
		a.log.Warn("still waiting for the store", "store", a.backend.Where(), "error", a.backend.Missing())
	})
	defer reminder.Stop()
	loaded := func(context.Context) (bool, error) { return a.backend.Loaded() && a.backend.Followed() == nil, nil }
	return wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, loaded) == nil
}

// apiCommand returns a command that calls the API. Over plain HTTP kubectl sends no
// credential, whatever its kubeconfig has: there curl reads the token from the file.
func (a greeter) apiCommand() string {
	if admin := a.listeners.named("admin"); admin != nil {
		if path, ok := strings.CutPrefix(a.settings.Listeners.AdminListen, unixPrefix); ok {
			return "curl --unix-socket '" + path + "' http://localhost/api/v1/ignitionconfigs"
		}
		return "kubectl -s " + localURL(admin.name, admin.listener.Addr()) + " get ign,bmh -A"
	}
	if server := a.listeners.kubeconfigServer(); strings.HasPrefix(server, "http:") {
		if !a.settings.Access.AllowInsecureAPI && !isLoopbackURL(server) {
			return "(plain HTTP serves the API at loopback addresses alone: it needs --listen-tls or --admin-listen)"
		}
		return fmt.Sprintf(`curl -H "Authorization: Bearer $(sed -n 's/^ *token: //p' '%s')" %s/api/v1/ignitionconfigs
  (kubectl sends no credential over plain HTTP: it needs --listen-tls or --admin-listen)`, a.creds.KubeconfigPath(),
			server)
	}
	return "kubectl --kubeconfig " + a.creds.KubeconfigPath() + " get ign,bmh -A"
}

// consolePage is the address of the console, or the command that opens it; "": there is none for people at this machine.
func (a greeter) consolePage() string {
	if a.console == nil {
		return ""
	}
	isSocket := strings.HasPrefix(a.settings.Listeners.AdminListen, unixPrefix)
	if admin := a.listeners.named("admin"); admin != nil && !isSocket {
		return localURL(admin.name, admin.listener.Addr()) + console.Prefix
	}
	if a.settings.Listeners.ListenTLS == "" {
		return ""
	}
	return "glowplug console --kubeconfig " + a.creds.KubeconfigPath()
}

func isLoopbackURL(server string) bool {
	parsed, err := url.Parse(server)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(parsed.Hostname())
	return err == nil && addr.IsLoopback()
}

// example returns a command that shows the config of one of these hosts; "" where there
// is no admin listener, where a caller is believed, or none has a config.
func (a greeter) example(macs []string) string {
	admin := a.listeners.named("admin")
	if admin == nil {
		return ""
	}
	for _, text := range macs {
		mac, err := netaddr.ParseMAC(text)
		if err != nil {
			continue
		}
		request := decide.Request{
			Type: decide.Ignition, Caller: identity.Caller{Believed: true}, Claims: identity.Claims{MAC: mac},
		}
		if decision := a.decider.Config(&request); decision.Err != nil {
			continue
		}
		path := machine.PathIgnition + "?mac=" + mac.String()
		if socket, ok := strings.CutPrefix(a.settings.Listeners.AdminListen, unixPrefix); ok {
			return "curl --unix-socket '" + socket + "' 'http://localhost" + path + "'"
		}
		return "curl '" + localURL(admin.name, admin.listener.Addr()) + path + "'"
	}
	return ""
}

// reachable returns the address of a listener. The wildcard is shown with its port.
func reachable(name string, addr net.Addr) string {
	url := localURL(name, addr)
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		url += " (all addresses)"
	}
	return url
}

// localURL returns the URL of a listener for clients on this machine.
func localURL(name string, addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return unixPrefix + addr.String()
	}
	local := *tcp
	if local.IP.IsUnspecified() {
		local.IP = net.IPv4(127, 0, 0, 1)
	}
	scheme := name
	if name == "admin" || name == "metrics" {
		scheme = "http"
	}
	return scheme + "://" + local.String()
}
