package app

import (
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	"filippo.io/age"
	"github.com/spf13/pflag"

	"glowplug/internal/audit"
	"glowplug/internal/backend"
	"glowplug/internal/domain/identity"
	"glowplug/internal/egress"
	"glowplug/internal/image/download"
	"glowplug/internal/option"
	"glowplug/internal/serve/machine"
	"glowplug/internal/serve/pxe"
	"glowplug/internal/store/boots"
)

// Options are the options of `glowplug serve`, grouped by concern. Each field is a flag and an environment
// variable; AddFlags has their meaning, and docs/reference/commands.md is generated from it.
type Options struct {
	Store     backend.Options
	Listeners Listeners
	Access    Access
	Console   Console
	Boot      Boot
	PXE       PXE
	Images    Images
	Limits    Limits
	History   History
	Backups   Backups
	Audit     audit.Options
	Manifests []string
	LogLevel  string
	LogFormat string
}

// AddFlags declares the flags with their defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.Store.AddFlags(fs)
	o.Listeners.addFlags(fs)
	o.Access.addFlags(fs)
	o.Console.addFlags(fs)
	o.Boot.addFlags(fs)
	o.PXE.addFlags(fs)
	o.Images.addFlags(fs)
	o.Limits.addFlags(fs)
	o.History.addFlags(fs)
	o.Backups.addFlags(fs)
	addAuditFlags(fs, &o.Audit)
	fs.StringSliceVar(&o.Manifests, "manifests", nil,
		"YAML or JSON file or folder applied by server-side apply at each start (repeatable)")
	fs.StringVar(&o.LogLevel, "log-level", "info", "debug, info, warn or error")
	fs.StringVar(&o.LogFormat, "log-format", "text", "text or json")
}

// settings are the options, checked and parsed.
type settings struct {
	Options
	proxies                 []netip.Prefix
	claims                  identity.Mode
	neighbors               identity.NeighborMode
	level                   slog.Level
	allowFetch, allowImages egress.Policy
	keyring                 *download.Keyring // nil: none is given
	auditPolicy             *audit.Policy     // nil: there is no audit
	portalHost              string            // of --iscsi-portal, as portalPort
	portalPort              uint16
	mapNamespace, mapName   string            // of --coreos-configmap
	aliases                 map[string]string // of --streams-alias: path to stream
	keepBoots               boots.Limits
	backupsFor              []age.Recipient // of --backup-recipient
	leasing                 leasing
}

var (
	claimModes    = map[string]identity.Mode{"verify": identity.Verify, "trust": identity.Trust, "deny": identity.Deny}
	neighborModes = map[string]identity.NeighborMode{"auto": identity.NeighborsAuto, "enforce": identity.NeighborsEnforce,
		"off": identity.NeighborsOff}
)

// Check returns the error of the first option that cannot be used. It opens nothing but the files that options name.
func (o Options) Check() error {
	_, err := o.check()
	return err
}

// check parses the options. Its error names the first flag that cannot be used.
func (o Options) check() (*settings, error) {
	s := &settings{Options: o}
	for _, check := range []func() error{
		s.checkChoices, s.checkListen, s.Store.Check, s.checkManifests, s.checkNetworks, s.checkBoot, s.checkStreams,
		s.checkLimits, s.checkHistory, s.checkLeasing, s.checkBackups, func() error { return checkAudit(s) },
		func() error { return checkHTTPS(s) }, func() error { return checkConsole(s) },
	} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Choices has the values of each flag that has a list of them.
var Choices = map[string][]string{
	"identity-claims": {"verify", "trust", "deny"},
	"neighbors":       {"auto", "enforce", "off"},
	"unknown-hosts":   {machine.UnknownExit, machine.UnknownMenu, machine.UnknownDefault},
	"pxe-hosts":       {pxe.HostsAll, pxe.HostsKnown},
	"pxe-ra":          {advertiseAuto, advertiseOn, advertiseOff},
	"metrics":         {metricsOpen, metricsCredential},
	"audit-log-mode":  {audit.ModeBatch, audit.ModeBlocking, audit.ModeBlockingStrict},
	"log-format":      {"text", "json"},
	"log-level":       {"debug", "info", "warn", "error"},
}

// checkChoices checks the options that have a list of values.
func (s *settings) checkChoices() error {
	for _, c := range []struct{ flag, value string }{
		{"identity-claims", s.Access.IdentityClaims},
		{"neighbors", s.Access.Neighbors},
		{"unknown-hosts", s.Boot.UnknownHosts},
		{"pxe-hosts", s.PXE.Hosts},
		{"pxe-ra", s.PXE.Advertise},
		{"metrics", s.Access.Metrics},
		{"audit-log-mode", s.Audit.Mode},
		{"log-format", s.LogFormat},
		{"log-level", strings.ToLower(s.LogLevel)},
	} {
		if values := Choices[c.flag]; !slices.Contains(values, c.value) {
			return option.Bad(c.flag, "%q is none of %s", c.value, strings.Join(values, ", "))
		}
	}
	if err := s.level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return option.Bad("log-level", "%v", err)
	}
	s.claims, s.neighbors = claimModes[s.Access.IdentityClaims], neighborModes[s.Access.Neighbors]
	return nil
}
