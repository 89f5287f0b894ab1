package app

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/loader"
	"glowplug/internal/option"
	"glowplug/internal/serve/machine"
	"glowplug/internal/serve/pxe"
	"glowplug/internal/serve/tftp"
)

// openNetworks finds the boot loaders, and opens the sockets of each --pxe-interface.
func openNetworks(ctx context.Context, a builder) error {
	s := a.settings
	opts := pxe.Options{
		Relays: s.PXE.Relays,
		Boots:  func(w http.ResponseWriter, r *http.Request) { a.boots.ServeHTTP(w, machine.OverTFTP(r)) },
		Hosts:  func() pxe.Hosts { return a.inventory.View() }, Ready: a.ready, Events: a.events,
		Logger: a.log, Limiter: a.limiter, Metrics: pxe.NewMetrics(a.metrics), TFTP: tftp.NewMetrics(a.metrics),
	}
	if len(s.PXE.Interfaces) == 0 {
		return nil
	}
	if s.Boot.HTTPURL == "" && a.httpPort() == 0 {
		return option.Bad("pxe-interface", "needs plain HTTP, by which machines read what they boot: --listen, or --http-url")
	}
	var err error
	if a.loaders, err = loader.In(s.PXE.Loaders); err != nil {
		return option.Bad("boot-loaders", "%v", err)
	}
	if !slices.ContainsFunc(loader.Arches, func(arch loader.Arch) bool { return a.loaders.For(arch) != nil }) {
		a.log.Warn("there is no iPXE to give to machines that boot from the network", "remedy", loader.Package(loader.X64))
	}
	networks, err := s.networks()
	if err != nil {
		return err
	}
	a.leases.Use(a.backend.Stores[kinds.Leases])
	for i, name := range s.PXE.Interfaces {
		if err := openNetwork(ctx, a, opts, name, networks[i]); err != nil {
			return err
		}
	}
	return nil
}

// openNetwork opens the sockets of an interface with an address in a network.
func openNetwork(ctx context.Context, a builder, opts pxe.Options, name string, network netip.Prefix) (err error) {
	s, address := a.settings, network.Addr()
	if opts.Leasing, err = s.leasingOn(ctx, name, network, a.leases); err != nil {
		return err
	}
	opts.Interface = name
	opts.Advertise = s.PXE.Advertise == advertiseOn ||
		s.PXE.Advertise == advertiseAuto && opts.Leasing != nil && !pxe.IsRouter(name)
	opts.Rules = pxe.Rules{
		Hosts: s.PXE.Hosts, Loaders: a.loaders, Address: address, URL: a.urlAt(address),
		ScriptPath: machine.PathScript, LoaderPath: machine.PathLoaders, GRUBPath: machine.PathGRUB,
		ImagePath: machine.PathISO, Port: a.httpPort(),
	}
	server, err := pxe.New(opts)
	if err != nil {
		return option.Bad("pxe-interface", "%v", err)
	}
	a.onClose(server.Close)
	a.networks = append(a.networks, server)
	return nil
}

// given says which loader each kind of firmware is given.
func given(loaders *loader.Set) string {
	var parts []string
	for _, arch := range loader.Arches {
		name := "none"
		if l := loaders.For(arch); l != nil {
			name = l.Name
		}
		parts = append(parts, string(arch)+" "+name)
	}
	return strings.Join(parts, ", ")
}

// urlAt returns the URL of this server as machines at an interface with an address reach it.
func (a builder) urlAt(address netip.Addr) string {
	if a.settings.Boot.HTTPURL != "" {
		return a.settings.Boot.HTTPURL
	}
	return "http://" + net.JoinHostPort(address.String(), strconv.Itoa(int(a.httpPort())))
}

// httpPort returns the port of the first listener of plain HTTP; 0: there is none.
func (a builder) httpPort() uint16 {
	for _, d := range a.listeners {
		if tcp, ok := d.listener.Addr().(*net.TCPAddr); ok && d.name == "http" {
			return uint16(tcp.Port)
		}
	}
	return 0
}
