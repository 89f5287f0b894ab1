package app

import (
	"net"
	"net/http"
	"strings"

	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/serve/api"
	"glowplug/internal/serve/console"
	"glowplug/internal/serve/console/live"
)

// newHub returns the hub that tells open pages what has changed.
func newHub(a *App) *live.Hub {
	return live.New(live.Options{
		Inventory: a.inventory,
		Progress:  func(h *model.Host) model.Progress { return a.tracker.Progress(h) },
		Storm:     func() bool { return a.tracker.Storm() },
	})
}

// markBoot tells pages that the boot of a host has changed.
func markBoot(hub *live.Hub, host model.Ref) {
	if !model.IsStranger(host) {
		hub.Mark(kinds.BareMetalHosts, host)
	}
	hub.Mark(kinds.Boots, model.Ref{Namespace: host.Namespace})
}

// openConsole makes the console, whose users ask the API as themselves.
func openConsole(a builder) error {
	if !a.settings.Listeners.Console {
		return nil
	}
	own, err := client.New(a.api.ActingConfig())
	if err != nil {
		return err
	}
	a.onClose(own.Close)
	key, err := a.creds.ConsoleKey()
	if err != nil {
		return err
	}
	signIn, err := signInOIDC(a.App)
	if err != nil {
		return err
	}
	a.console, err = console.New(console.Options{
		Client: own, As: api.As, User: a.api.User, Lasting: a.api.Lasting, MayList: a.api.MayList, IsLocal: api.IsAdmin,
		Address: func(r *http.Request) string { return consoleAddress(a.App, r) },
		OIDC:    signIn,
		Live:    a.live, Ready: a.health(), Key: key, Logger: a.log,
		MayGet: mayGet(a.App), Facts: func() []console.Fact { return facts(a.App) },
	})
	return err
}

// consoleAddress is the URL of the console over HTTPS: --console-url, else at the name by which a request has reached
// this server; "": it is not served over HTTPS.
func consoleAddress(a *App, r *http.Request) string {
	if a.settings.Console.URL != "" {
		return a.settings.Console.URL
	}
	d := a.listeners.named("https")
	if d == nil {
		return ""
	}
	name, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		name = strings.Trim(r.Host, "[]")
	}
	_, port, err := net.SplitHostPort(d.listener.Addr().String())
	if err != nil {
		return ""
	}
	return "https://" + net.JoinHostPort(name, port) + console.Prefix
}
