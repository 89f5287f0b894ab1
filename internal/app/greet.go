package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/serve/machine"
	"glowplug/internal/version"
)

// greeter tells on the terminal that the server is ready, and how to try it.
type greeter struct{ *App }

// greet waits for the store, applies the manifests, and prints the banner.
func (a greeter) greet(ctx context.Context) {
	if !a.awaitStore(ctx) {
		return
	}
	b := banner{version: version.Line(), store: a.backend.where, ask: a.ask()}
	for _, d := range a.doors {
		b.doors = append(b.doors, listening{name: d.name, addr: d.listener.Addr()})
	}
	if a.portalListener != nil {
		b.doors = append(b.doors, listening{name: "iscsi", addr: a.portalListener.Addr()})
	}
	if len(a.settings.Manifests) > 0 {
		count := applyManifests(ctx, a.own, a.settings.Manifests, a.log)
		b.manifests = fmt.Sprintf("%d applied", count.good)
		if count.bad > 0 {
			b.manifests += fmt.Sprintf(", %d not: see the log", count.bad)
		}
		b.try = a.example(count.macs)
	}
	a.seeded.Store(true)
	a.sink.Flush()
	b.write(a.stdout)
}

// awaitStore waits until the store has been read, but for what is lost of it.
func (a greeter) awaitStore(ctx context.Context) bool {
	reminder := time.NewTimer(5 * time.Second)
	defer reminder.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !a.loaded() || a.followed() != nil {
		select {
		case <-ctx.Done():
			return false
		case <-reminder.C:
			a.log.Warn("still waiting for the store", "store", a.backend.where, "error", a.missing())
		case <-poll.C:
		}
	}
	return true
}

// ask is a command that asks the API. Over plain HTTP kubectl sends no credential,
// whatever its kubeconfig has: there it is curl that reads the token from the file.
func (a greeter) ask() string {
	if admin := a.adminDoor(); admin != nil {
		if path, ok := strings.CutPrefix(a.settings.AdminListen, unixPrefix); ok {
			return "curl --unix-socket '" + path + "' http://localhost/api/v1/ignitionconfigs"
		}
		return "kubectl -s " + localURL(admin.name, admin.listener.Addr()) + " get ign,bmh -A"
	}
	if server := a.kubeconfigServer(); strings.HasPrefix(server, "http:") {
		return fmt.Sprintf(`curl -H "Authorization: Bearer $(sed -n 's/^ *token: //p' '%s')" %s/api/v1/ignitionconfigs
  (kubectl sends no credential over plain HTTP: it needs --listen-tls or --admin-listen)`, a.creds.KubeconfigPath(),
			server)
	}
	return "kubectl --kubeconfig " + a.creds.KubeconfigPath() + " get ign,bmh -A"
}

// adminDoor is the admin listener; nil without one.
func (a greeter) adminDoor() *door {
	for _, d := range a.doors {
		if d.rule.Admin {
			return d
		}
	}
	return nil
}

// example is a command that shows the config of one of these hosts; "" where there
// is no admin listener, where a caller is believed, or none has a config.
func (a greeter) example(macs []string) string {
	admin := a.adminDoor()
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
		if socket, ok := strings.CutPrefix(a.settings.AdminListen, unixPrefix); ok {
			return "curl --unix-socket '" + socket + "' 'http://localhost" + path + "'"
		}
		return "curl '" + localURL(admin.name, admin.listener.Addr()) + path + "'"
	}
	return ""
}
