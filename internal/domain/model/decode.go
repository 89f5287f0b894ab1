package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unsafe"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/report"
	"glowplug/internal/domain/template"
)

// refOf reads a bucket key, "{namespace}/{name}".
func refOf(key string) Ref {
	namespace, name, _ := strings.Cut(key, "/")
	return Ref{Namespace: namespace, Name: name}
}

// refFrom reads "name" or "namespace/name" in an object of a namespace; "" is zero.
func refFrom(s, namespace string) Ref {
	if s == "" {
		return Ref{}
	}
	if ns, name, ok := strings.Cut(s, "/"); ok {
		return Ref{Namespace: ns, Name: name}
	}
	return Ref{Namespace: namespace, Name: s}
}

func decodeHost(object Stored, in *Interner) (*Host, error) {
	var stored storedHost
	if err := read(object.Value, &stored); err != nil {
		return nil, err
	}
	return newHost(object.Ref(), object.Revision, &stored, in)
}

// newHost makes a host of an object, whose maps it may keep and change.
func newHost(ref Ref, revision uint64, stored *storedHost, in *Interner) (*Host, error) {
	meta, spec := &stored.Metadata, &stored.Spec
	labels := spec.Labels
	if len(meta.Labels) > 0 {
		labels = meta.Labels
		maps.Copy(labels, spec.Labels)
	}
	h := &Host{
		Ref: ref, UID: meta.UID, Created: time.Time(meta.Created), Revision: revision,
		Labels:   in.labels(labels),
		Progress: stored.Status.progress(), Unmet: stored.Status.unmet(), Hardware: uint32(stored.Status.Hardware),
	}
	h.Boot = hostBoot(stored)
	if !h.Booting().Disk {
		h.Image = refFrom(spec.Image, h.Namespace)
	}
	if spec.SystemUUID != "" {
		var err error
		if h.UUID, err = netaddr.ParseUUID(spec.SystemUUID); err != nil {
			return nil, fmt.Errorf("spec.systemUUID: %w", err)
		}
	}
	if err := h.addCards(spec); err != nil {
		return nil, err
	}
	delete(meta.Annotations, v1.AnnotationLastApplied)
	more := HostMore{Annotations: meta.Annotations, NICs: cards(spec.NICs), OtherMACs: otherMACs(spec.NICs)}
	if len(more.Annotations)+len(more.NICs) > 0 {
		h.More = &more
	}
	for i, s := range spec.BootSources {
		p, err := netaddr.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("spec.bootSources[%d]: %w", i, err)
		}
		h.BootSources = append(h.BootSources, p)
	}
	return h, nil
}

// hostBoot returns the settings of booting of a host; nil: it has the defaults.
func hostBoot(stored *storedHost) *HostBoot {
	spec := &stored.Spec
	boot := &HostBoot{
		Disk: spec.Image == v1.ImageLocalBoot, Forever: spec.BootMode == v1.BootForever,
		KernelArgs: spec.KernelArgs, IPXE: spec.IPXE, Rearm: stored.Metadata.Annotations[v1.AnnotationRearm],
		Armed: time.Time(stored.Status.Armed), InstallDevice: spec.RootDeviceHints.Device(),
	}
	if spec.PXE != nil {
		boot.PXE = *spec.PXE
	}
	if spec.Provisioning != nil {
		boot.Provisioning = *spec.Provisioning
	}
	if boot.Disk || boot.Forever || len(boot.KernelArgs) > 0 || boot.IPXE != "" || boot.Rearm != "" ||
		!boot.Armed.IsZero() || spec.Provisioning != nil || spec.PXE != nil ||
		boot.InstallDevice != "" {
		return boot
	}
	return nil
}

func (s *hostStatus) progress() Progress {
	return Progress{
		State: StateOf(s.State), Script: time.Time(s.LastScript), Seen: time.Time(s.LastSeen), Boot: time.Time(s.LastBoot),
		Rearmed: s.Rearmed, Boots: s.BootCount, Position: uint64(max(0, s.BootRecord)), Window: WindowOf(s.Provisioning),
	}
}

// unmet returns the conditions that are False.
func (s *hostStatus) unmet() (unmet Conditions) {
	for _, c := range s.Conditions {
		if c.Status == "False" {
			unmet |= conditionNames[c.Type]
		}
	}
	return unmet
}

var states = []string{v1.StateAvailable, v1.StateBooting, v1.StateProvisioning, v1.StateProvisioned, v1.StateError}

// StateOf returns a known state as the string that all hosts share, and "" for any other.
func StateOf(state string) string {
	if i := slices.Index(states, state); i >= 0 {
		return states[i]
	}
	return ""
}

// addCards adds the addresses and names of the host's network cards, first those of the
// card that it boots from.
func (h *Host) addCards(spec *v1.BareMetalHostSpec) (err error) {
	path, macField := "spec.", "bootMACAddress"
	for i, nic := range append([]v1.NIC{{MAC: spec.BootMACAddress, IP: spec.IP, Hostname: spec.Hostname}}, spec.NICs...) {
		if i > 0 {
			path, macField = fmt.Sprintf("spec.nics[%d].", i-1), "mac"
			if netaddr.IsOtherMAC(nic.MAC) {
				nic.MAC = "" // see otherMACs
			}
		}
		if h.MACs, err = appendParsed(h.MACs, nic.MAC, path+macField, netaddr.ParseMAC); err != nil {
			return err
		}
		if h.IPs, err = appendParsed(h.IPs, nic.IP, path+"ip", netaddr.ParseIP); err != nil {
			return err
		}
		if h.Hostnames, err = appendParsed(h.Hostnames, nic.Hostname, path+"hostname", netaddr.ParseHostname); err != nil {
			return err
		}
		// Without a host name, the name of the resource is one, if it can be.
		if name, err := netaddr.ParseHostname(h.Name); i == 0 && nic.Hostname == "" && err == nil {
			h.Hostnames = append(h.Hostnames, name)
		}
	}
	h.MACs, h.IPs, h.Hostnames = match.Unique(h.MACs), match.Unique(h.IPs), match.Unique(h.Hostnames)
	return nil
}

// appendParsed appends the value of a field, unless that is empty.
func appendParsed[T any](list []T, s, field string, parse func(string) (T, error)) ([]T, error) {
	if s == "" {
		return list, nil
	}
	v, err := parse(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return append(list, v), nil
}

func decodeConfig(object Stored, _ *Interner) (*Config, error) {
	var stored storedConfig
	if err := read(object.Value, &stored); err != nil {
		return nil, err
	}
	c, err := newConfig(object.Ref(), object.Revision, &stored)
	if err != nil {
		return nil, err
	}
	c.Foreign = object.Foreign
	return c, nil
}

// newConfig makes a config of an object, whose values it may keep.
func newConfig(ref Ref, revision uint64, stored *storedConfig) (*Config, error) {
	meta, spec, status := &stored.Metadata, &stored.Spec, &stored.Status
	c := &Config{
		Ref: ref, UID: meta.UID, Created: time.Time(meta.Created), Revision: revision, Generation: meta.Generation,
		Type: spec.Type, Format: spec.Format, Installer: spec.KickstartVersion, Source: spec.Config,
		ErrorMessage: status.ErrorMessage, Pending: status.Phase == v1.PhasePending, Failing: status.Phase == v1.PhaseError,
		Confidential: spec.Confidential, confidentialSource: spec.Confidential,
	}
	if c.Type != v1.TypeIgnition && c.Type != v1.TypeKickstart {
		return nil, fmt.Errorf("spec.type: %q is neither %s nor %s", report.Clip(c.Type, 64), v1.TypeIgnition,
			v1.TypeKickstart)
	}
	sel := &spec.Selector
	parsed, err := match.ParseSelector(sel.MatchLabels, sel.MatchExpressions, sel.MatchHostnames, sel.MatchIPs,
		sel.MatchMACs, sel.Default)
	if err != nil {
		return nil, fmt.Errorf("spec.%w", err)
	}
	if stored.Compiled != nil && len(stored.Compiled.Artifact) > 0 {
		c.serve(stored.Compiled, status.Servable)
	}
	if len(spec.Layers) > 0 {
		c.Stack = &Stack{Merged: status.Layers}
		for _, layer := range spec.Layers {
			c.Stack.Layers = append(c.Stack.Layers, layer.Name)
		}
		if stored.Compiled != nil && stored.Compiled.Own != nil {
			c.Stack.Own = stored.Compiled.Own.Artifact
			c.share(c.Stack.Own)
		}
	}
	c.rule = &match.Rule{
		Ref: c.Ref, Type: c.Type, Created: c.Created, Role: meta.Labels[v1.LabelRole], Selector: parsed, Config: c,
	}
	return c, nil
}

// serve adopts the last successful compilation.
func (c *Config) serve(made *v1.Compiled, servable []v1.ServableVersions) {
	c.Artifact, c.Hash, c.IgnitionVersion = made.Artifact, made.Hash, made.IgnitionVersion
	c.Compiled = made.Generation
	c.ETag = `"` + made.Hash + `"`
	c.Confidential = c.Confidential || made.Confidential
	if c.Template = made.Template; made.Template && made.Format != "" {
		c.Format = made.Format
	}
	// A template that fails for some hosts is still the newest one for the others.
	c.Stale = made.Generation != c.Generation || c.Failing && !c.Template
	c.Unjudged = c.IgnitionVersion != "" && len(servable) == 0
	c.Servable = specsOf(c.IgnitionVersion, servable)
	c.share(c.Artifact)
	if c.Type == v1.TypeIgnition && !c.Template {
		c.Demands = ignition.LiveDemandsOf(c.Artifact)
	}
}

// specsOf returns the versions of Ignition in which a config of a version can be served; 0: it is not known.
func specsOf(own string, servable []v1.ServableVersions) (specs ignition.Specs) {
	for _, group := range servable {
		if len(group.BlockedBy) == 0 {
			specs |= ignition.SpecsIn(group.Versions)
		}
	}
	if specs != 0 {
		specs |= ignition.SpecsOf(own)
	}
	return specs
}

// share lets the source share the memory of compiled bytes that are equal to it.
func (c *Config) share(compiled []byte) {
	if string(compiled) == c.Source {
		c.Source = unsafe.String(unsafe.SliceData(compiled), len(compiled))
	}
}

// cards returns network cards for templates.
func cards(nics []v1.NIC) []template.NIC {
	var out []template.NIC
	for _, nic := range nics {
		var c template.NIC
		if mac, err := netaddr.ParseAnyMAC(nic.MAC); err == nil {
			c.MAC = mac
		}
		if ip, err := netaddr.ParseIP(nic.IP); err == nil {
			c.IP = ip.String()
		}
		if name, err := netaddr.ParseHostname(nic.Hostname); err == nil {
			c.Hostname = name
		}
		out = append(out, c)
	}
	return out
}

// otherMACs returns the hardware addresses of cards that are none of Ethernet.
func otherMACs(nics []v1.NIC) []string {
	var macs []string
	for _, nic := range nics {
		if m, err := netaddr.ParseOtherMAC(nic.MAC); err == nil {
			macs = append(macs, m)
		}
	}
	return match.Unique(macs)
}

// roleRootfs is the role of a root file system among an image's files.
const roleRootfs = "rootfs"

func decodeImage(object Stored, _ *Interner) (*Image, error) {
	var stored storedImage
	if err := read(object.Value, &stored); err != nil {
		return nil, err
	}
	return newImage(object.Ref(), object.Revision, &stored), nil
}

// newImage makes an image of an object, whose values it may keep.
func newImage(ref Ref, revision uint64, stored *storedImage) *Image {
	meta, spec, status := &stored.Metadata, &stored.Spec, &stored.Status
	noConfig := ""
	for _, c := range status.Conditions {
		if c.Type == v1.ConditionConfigArgument && c.Status == "False" {
			noConfig = c.Message
		}
	}
	return &Image{
		Ref: ref, UID: meta.UID, Revision: revision, Generation: meta.Generation,
		Config:  refFrom(spec.IgnitionConfig, ref.Namespace),
		Created: time.Time(meta.Created), Version: spec.Version, Hidden: spec.Menu != nil && !*spec.Menu,
		External: spec.External, CHAP: spec.CHAP, HTTP: spec.Transport == v1.TransportHTTP, Default: spec.Default,
		HostsOnly:         spec.Access != "" && spec.Access != v1.AccessAny,
		AllowedInitiators: spec.AllowedInitiators, KernelArgs: spec.KernelArgs,
		NoDefaultArgs: !spec.WantsDefaultKernelArgs(), AppliedArgs: status.KernelArgsApplied,
		OwnArgs: status.OwnKernelArgs, NoConfig: noConfig,
		Stream: spec.Stream != nil, PXE: spec.Stream != nil && spec.Stream.Format == v1.FormatPXE,
		Rootfs: slices.ContainsFunc(status.Files, isRootfs),
		Sum:    status.SHA256, Release: status.ServedRelease, MaxIgnition: status.MaxIgnition,
		Architectures: status.Architectures,
		Phase:         status.Phase, Message: status.ErrorMessage, IQN: status.TargetIQN,
		Live:        spec.External == nil && status.Distro == distroCoreOS,
		Flatcar:     spec.External == nil && status.Distro == distroFlatcar || isFlatcarSet(spec, status),
		Args:        argumentsOf(spec, status),
		StepTimeout: v1.StepTimeoutOf(meta.Annotations), InstallDevice: meta.Annotations[v1.AnnotationInstallDevice],
	}
}

// argumentsOf returns the kernel arguments of an image as it is served. Those of a spec that is new are set soon.
func argumentsOf(spec *v1.ISCSICdromSpec, status *imageStatus) []string {
	if len(status.KernelArgsApplied) == 0 {
		return nil
	}
	return v1.MergeKernelArgs(append(slices.Clip(status.OwnKernelArgs), status.KernelArgsApplied...), spec.KernelArgs)
}

// distroCoreOS is status.distro of a CoreOS image, each of which runs from memory.
const distroCoreOS = "coreos"

// isFlatcarSet reports whether an image of a kernel and its files is one of Flatcar: it has no root file system beside
// its initramfs. Before its files are there, that is not known.
func isFlatcarSet(spec *v1.ISCSICdromSpec, status *imageStatus) bool {
	return spec.Stream != nil && spec.Stream.Format == v1.FormatPXE && len(status.Files) > 0 &&
		!slices.ContainsFunc(status.Files, isRootfs)
}

func isRootfs(f v1.ImageFile) bool { return f.Role == roleRootfs }

// distroFlatcar is status.distro of an image of Flatcar.
const distroFlatcar = "flatcar"

// decodeNamespace reads a namespace, whose key is its name.
func decodeNamespace(object Stored, _ *Interner) (*Namespace, error) {
	var stored storedNamespace
	if err := read(object.Value, &stored); err != nil {
		return nil, err
	}
	return newNamespace(strings.Clone(object.Key), stored.Metadata.Annotations), nil
}

func newNamespace(name string, annotations map[string]string) *Namespace {
	return &Namespace{
		Name: name, IPXE: annotations[v1.AnnotationIPXE],
		RejectsBroken: annotations[v1.AnnotationRejectBroken] == "true",
		Island:        annotations[v1.AnnotationIsland],
		Isolated:      annotations[v1.AnnotationIsolated] == "true",
		Provisioning:  v1.ProvisioningOf(annotations),
		InstallDevice: annotations[v1.AnnotationInstallDevice],
	}
}

// Interner lets hosts with the same labels share one map: a map takes more room
// than all else that is known of a host. A nil Interner shares nothing.
type Interner struct {
	sets map[string]map[string]string
	keys []string
	key  strings.Builder
}

// NewInterner returns an Interner, which one goroutine may use at a time.
func NewInterner() *Interner { return &Interner{sets: make(map[string]map[string]string)} }

// labels returns a map equal to m that must not be changed.
func (in *Interner) labels(m map[string]string) map[string]string {
	if in == nil || len(m) == 0 {
		return m
	}
	in.keys = in.keys[:0]
	for k := range m {
		in.keys = append(in.keys, k)
	}
	slices.Sort(in.keys)
	in.key.Reset()
	for _, k := range in.keys {
		in.key.WriteString(k)
		in.key.WriteByte(0)
		in.key.WriteString(m[k])
		in.key.WriteByte(0)
	}
	key := in.key.String()
	if have, ok := in.sets[key]; ok {
		return have
	}
	in.sets[key] = m
	return m
}
