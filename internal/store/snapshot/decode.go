package snapshot

import (
	"fmt"
	"strings"
	"unsafe"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/template"
	"glowplug/internal/store/kvstore"
)

// refOf reads a bucket key, "{namespace}/{name}".
func refOf(key string) Ref {
	namespace, name, _ := strings.Cut(key, "/")
	return Ref{Namespace: namespace, Name: name}
}

// refFrom reads "name" or "namespace/name" as it stands in an object of a
// namespace; "" is none.
func refFrom(s, namespace string) Ref {
	if s == "" {
		return Ref{}
	}
	if ns, name, ok := strings.Cut(s, "/"); ok {
		return Ref{Namespace: ns, Name: name}
	}
	return Ref{Namespace: namespace, Name: s}
}

func decodeHost(item kvstore.Item, in *interner) (*Host, error) {
	doc := hostDoc{metadata: metaDoc{annotated: true}}
	if err := read(item.Value, &doc); err != nil {
		return nil, err
	}
	h := &Host{
		Ref: refOf(item.Key), UID: doc.metadata.uid, Created: doc.metadata.created, Revision: item.Revision,
		Labels:   in.labels(overlay(doc.metadata.labels, doc.spec.Labels)),
		Progress: doc.progress,
	}
	boot := HostBoot{
		Disk: doc.spec.Image == v1.ImageLocalBoot, Forever: doc.spec.BootMode == v1.BootForever,
		KernelArgs: doc.spec.KernelArgs, IPXE: doc.spec.IPXE, Rearm: doc.metadata.rearm,
	}
	if boot.Disk || boot.Forever || len(boot.KernelArgs) > 0 || boot.IPXE != "" || boot.Rearm != "" {
		h.Boot = &boot
	}
	more := HostMore{Annotations: doc.metadata.annotations, Unreadable: doc.unreadable}
	if len(more.Annotations)+len(doc.spec.NICs) > 0 || more.Unreadable {
		h.More = &more
	}
	if doc.spec.Image != v1.ImageLocalBoot {
		h.Image = refFrom(doc.spec.Image, h.Namespace)
	}
	var err error
	if h.UUID, err = optional(doc.spec.SystemUUID, "spec.systemUUID", netaddr.ParseUUID); err != nil {
		return nil, err
	}
	if err := h.addCard("spec.", "bootMACAddress", doc.spec.BootMACAddress, doc.spec.IP, doc.spec.Hostname); err != nil {
		return nil, err
	}
	if doc.spec.Hostname == "" {
		// A resource name need not be a host name; then it is none.
		if name, err := netaddr.ParseHostname(h.Name); err == nil {
			h.Hostnames = []string{name}
		}
	}
	for i, nic := range doc.spec.NICs {
		if err := h.addCard(fmt.Sprintf("spec.nics[%d].", i), "mac", nic.MAC, nic.IP, nic.Hostname); err != nil {
			return nil, err
		}
		h.More.NICs = append(h.More.NICs, card(nic))
	}
	h.MACs, h.IPs, h.Hostnames = match.Unique(h.MACs), match.Unique(h.IPs), match.Unique(h.Hostnames)
	for i, s := range doc.spec.BootSources {
		p, err := netaddr.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("spec.bootSources[%d]: %w", i, err)
		}
		h.BootSources = append(h.BootSources, p)
	}
	return h, nil
}

// addCard adds what is known of a network card; each part may be empty.
func (h *Host) addCard(path, macField, mac, ip, hostname string) error {
	if m, err := optional(mac, path+macField, netaddr.ParseMAC); err != nil {
		return err
	} else if mac != "" {
		h.MACs = append(h.MACs, m)
	}
	if a, err := optional(ip, path+"ip", netaddr.ParseIP); err != nil {
		return err
	} else if ip != "" {
		h.IPs = append(h.IPs, a)
	}
	if n, err := optional(hostname, path+"hostname", netaddr.ParseHostname); err != nil {
		return err
	} else if hostname != "" {
		h.Hostnames = append(h.Hostnames, n)
	}
	return nil
}

// optional parses a value where there is one; the error names its field.
func optional[T any](s, field string, parse func(string) (T, error)) (T, error) {
	var v T
	if s == "" {
		return v, nil
	}
	v, err := parse(s)
	if err != nil {
		return v, fmt.Errorf("%s: %w", field, err)
	}
	return v, nil
}

// overlay lays top over base. It may change base.
func overlay(base, top map[string]string) map[string]string {
	if len(base) == 0 {
		return top
	}
	for k, v := range top {
		base[k] = v
	}
	return base
}

func decodeConfig(item kvstore.Item, _ *interner) (*Config, error) {
	var doc configDoc
	if err := read(item.Value, &doc); err != nil {
		return nil, err
	}
	c := &Config{
		Ref: refOf(item.Key), UID: doc.metadata.uid, Created: doc.metadata.created, Revision: item.Revision, Generation: doc.metadata.generation,
		Type: doc.spec.Type, Format: formatOf(doc.spec.Format), Installer: doc.spec.KickstartVersion, Source: doc.spec.Config, ErrorMessage: doc.status.ErrorMessage,
		Pending: doc.status.Phase == v1.PhasePending, Failing: doc.status.Phase == v1.PhaseError,
		Foreign: item.Foreign,
	}
	switch c.Type {
	case v1.TypeIgnition:
		c.Type = v1.TypeIgnition
	case v1.TypeKickstart:
		c.Type = v1.TypeKickstart
	default:
		return nil, fmt.Errorf("spec.type: %q is neither %s nor %s", clip(c.Type), v1.TypeIgnition, v1.TypeKickstart)
	}
	sel := &doc.spec.Selector
	parsed, err := match.ParseSelector(sel.MatchLabels, sel.MatchHostnames, sel.MatchIPs, sel.MatchMACs, sel.Default)
	if err != nil {
		return nil, fmt.Errorf("spec.%w", err)
	}
	if made := &doc.compiled; len(made.Artifact) > 0 {
		c.Artifact, c.Hash, c.IgnitionVersion = made.Artifact, made.Hash, made.IgnitionVersion
		c.ETag = `"` + made.Hash + `"`
		if c.Template = made.Template; made.Template && made.Format != "" {
			c.Format = formatOf(made.Format)
		}
		// A template fails for some hosts, and is no older one for the others.
		c.Stale = made.Generation != doc.metadata.generation || c.Failing && !c.Template
		c.Unjudged = c.IgnitionVersion != "" && !doc.judged
		if c.Servable = doc.servable; c.Servable != 0 {
			c.Servable |= ignition.SpecsOf(c.IgnitionVersion)
		}
		c.share(c.Artifact)
	}
	if len(doc.spec.Layers) > 0 {
		c.Stack = &Stack{Merged: doc.status.Layers}
		for _, layer := range doc.spec.Layers {
			c.Stack.Layers = append(c.Stack.Layers, layer.Name)
		}
		if own := doc.compiled.Own; own != nil {
			c.Stack.Own = own.Artifact
			c.share(own.Artifact)
		}
	}
	c.rule = &match.Rule{
		Ref: c.Ref, Type: c.Type, Created: c.Created, Role: doc.metadata.labels[v1.LabelRole], Selector: parsed, Config: c,
	}
	return c, nil
}

// share keeps bytes that are the source as it was written once: neither is ever
// changed.
func (c *Config) share(compiled []byte) {
	if string(compiled) == c.Source {
		c.Source = unsafe.String(unsafe.SliceData(compiled), len(compiled))
	}
}

// card is a network card as templates see it. Its values have been read before.
func card(nic v1.NIC) (c template.NIC) {
	if mac, err := netaddr.ParseMAC(nic.MAC); err == nil {
		c.MAC = mac.String()
	}
	if ip, err := netaddr.ParseIP(nic.IP); err == nil {
		c.IP = ip.String()
	}
	if name, err := netaddr.ParseHostname(nic.Hostname); err == nil {
		c.Hostname = name
	}
	return c
}

// formatOf gives the constant that a format is, which need not be kept ten thousand
// times.
func formatOf(format string) string {
	for _, known := range [...]string{v1.FormatButane, v1.FormatIgnition, v1.FormatKickstart} {
		if format == known {
			return known
		}
	}
	return format
}

func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// roleRootfs is the role of a root file system among an image's files.
const roleRootfs = "rootfs"

func decodeImage(item kvstore.Item, _ *interner) (*Image, error) {
	var doc imageDoc
	if err := read(item.Value, &doc); err != nil {
		return nil, err
	}
	ref := refOf(item.Key)
	i := &Image{
		Ref: ref, UID: doc.metadata.uid, Revision: item.Revision, Config: refFrom(doc.spec.IgnitionConfig, ref.Namespace),
		Created: doc.metadata.created, Version: doc.spec.Version, Hidden: doc.spec.Menu != nil && !*doc.spec.Menu,
		External: doc.spec.External, CHAP: doc.spec.CHAP, HTTP: doc.spec.Transport == v1.TransportHTTP, Default: doc.spec.Default,
		HostsOnly:         doc.spec.Access != "" && doc.spec.Access != v1.AccessAny,
		AllowedInitiators: doc.spec.AllowedInitiators, KernelArgs: doc.spec.KernelArgs,
		Phase: doc.status.Phase, Message: doc.status.ErrorMessage, IQN: doc.status.TargetIQN,
		Stream: doc.spec.Stream != nil, Sum: doc.status.SHA256, Release: doc.status.ServedRelease, MaxIgnition: doc.status.MaxIgnition,
	}
	i.PXE = i.Stream && doc.spec.Stream.Format == v1.FormatPXE
	for _, f := range doc.status.Files {
		i.Rootfs = i.Rootfs || f.Role == roleRootfs
	}
	return i, nil
}

// decodeNamespace reads a namespace, whose key is its name.
func decodeNamespace(item kvstore.Item, _ *interner) (*Namespace, error) {
	var doc namespaceDoc
	if err := read(item.Value, &doc); err != nil {
		return nil, err
	}
	return &Namespace{Name: strings.Clone(item.Key), IPXE: doc.metadata.ipxe}, nil
}

// indexConfigs files configs for lookup and matching.
func indexConfigs(configs []*Config) (map[Ref]*Config, *match.Index) {
	byRef := make(map[Ref]*Config, len(configs))
	rules := make([]*match.Rule, len(configs))
	for i, c := range configs {
		byRef[c.Ref] = c
		rules[i] = c.rule
	}
	return byRef, match.NewIndex(rules)
}
