package app

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"glowplug/internal/image"
	"glowplug/internal/serve/console"
)

const (
	// scarceRoom is when the disk of the store is nearly full, and soon when a certificate has nearly ended that nobody
	// renews.
	scarceRoom = 1 << 30
	soon       = 14 * 24 * time.Hour
)

// mayGet reports whether a user may read a path of this server: /metrics may be open to everybody.
func mayGet(a *App) func(ctx context.Context, who user.Info, path string) bool {
	isOpen := a.settings.Access.Metrics == metricsOpen && a.settings.Listeners.MetricsListen == ""
	return func(ctx context.Context, who user.Info, path string) bool {
		return isOpen && path == "/metrics" || a.api.MayGet(ctx, who, path)
	}
}

// facts are what the console says of this server in words.
func facts(a *App) (all []console.Fact) {
	for _, place := range a.places() {
		all = append(all, console.Fact{Name: place.name, Text: place.text})
	}
	if a.backend.Exclusive() { // of another store, only its limits are known: a write says that there is no room
		if free, err := image.FreeSpace(a.settings.Store.DataDir); err == nil && free < 1<<62 {
			all = append(all, console.Fact{Name: "room", IsBad: free < scarceRoom,
				Text: fmt.Sprintf("%d MiB are free on the disk of %s", free>>20, filepath.Clean(a.settings.Store.DataDir))})
		}
	} else if id, err := a.backend.Server(); err == nil {
		all = append(all, console.Fact{Name: "server", Text: id + ", one of those of the store"})
	}
	all = append(all, console.Fact{Name: "objects", Text: fmt.Sprintf("%d MiB in the store", int64(stored(a))>>20)})
	now := time.Now()
	for _, c := range a.creds.Certificates() {
		text := fmt.Sprintf("valid for %d days, until %s", int(c.Ends.Sub(now).Hours())/24,
			c.Ends.UTC().Format(time.DateOnly))
		if c.IsRenewed {
			text += "; this server renews it"
		}
		all = append(all, console.Fact{Name: c.Name, Text: text,
			IsBad: !c.IsRenewed && c.Ends.Sub(now) < soon || c.Ends.Before(now)})
	}
	return all
}

// stored is the size of all objects in the store, in bytes.
func stored(a *App) (bytes float64) {
	families, _ := a.metrics.Gather() // what cannot be collected is left out
	for _, f := range families {
		if f.GetName() != "glowplug_store_bytes" {
			continue
		}
		for _, m := range f.GetMetric() {
			bytes += m.GetGauge().GetValue()
		}
	}
	return bytes
}
