package app

import (
	"glowplug/internal/apiserver"
	"glowplug/internal/boot"
)

// lost gives the objects that the store has lost and that decide about machines.
func (a *App) lost() boot.Lost {
	return boot.Lost{
		Hosts:      a.stores[apiserver.BareMetalHosts].Lost(),
		Configs:    a.stores[apiserver.IgnitionConfigs].Lost(),
		Images:     a.stores[apiserver.ISCSICdroms].Lost(),
		Namespaces: a.stores[apiserver.Namespaces].Lost(),
	}
}
