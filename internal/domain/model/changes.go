package model

import (
	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/shardmap"
)

// Changes are objects that count as stored, by their names. An object that is nil counts as
// deleted.
type Changes struct {
	Hosts      map[Ref]*Host
	Configs    map[Ref]*Config
	Images     map[Ref]*Image
	Namespaces map[string]*Namespace
	// Roles and Bindings are those of namespaces, ClusterRoles and ClusterBindings the others, by their names.
	Roles           map[Ref]*Role
	Bindings        map[Ref]*Binding
	ClusterRoles    map[string]*Role
	ClusterBindings map[string]*Binding
}

// With returns the view as it would be with changes. The view itself stays as it is.
func (v View) With(c *Changes) View {
	next, edit := *v.state, new(shardmap.Edit)
	next.putAccess(edit, c)
	for ref, h := range c.Hosts {
		next.hosts.put(edit, ref, h)
	}
	for ref, config := range c.Configs {
		next.configs.put(edit, ref, config, next.isIsland(ref.Namespace))
	}
	for ref, i := range c.Images {
		next.images.put(edit, ref, i)
	}
	return View{&next}
}

// putAccess puts the namespaces, roles and bindings of changes, and derives the islands.
func (s *state) putAccess(edit *shardmap.Edit, c *Changes) {
	var touched []string
	for name, n := range c.Namespaces {
		s.namespaces.put(edit, nameOnly(name), n)
		touched = append(touched, name)
	}
	for ref, r := range c.Roles {
		s.grants.roles.put(edit, ref, r)
		touched = append(touched, ref.Namespace)
	}
	for ref, b := range c.Bindings {
		s.putBinding(edit, ref, b)
		touched = append(touched, ref.Namespace)
	}
	for name, r := range c.ClusterRoles {
		s.grants.clusterRoles.put(edit, nameOnly(name), r)
	}
	for name, b := range c.ClusterBindings {
		s.grants.clusterBindings.put(edit, nameOnly(name), b)
	}
	if len(c.ClusterRoles)+len(c.ClusterBindings) > 0 {
		s.deriveAllIslands(edit)
		return
	}
	s.deriveIslands(edit, touched...)
}

// DeletionOf returns the changes that delete all objects of a namespace, but not the Namespace itself.
func (v View) DeletionOf(name string) *Changes {
	s := v.state
	return &Changes{
		Hosts: s.hosts.byRef.deletion(name), Configs: s.configs.byRef.deletion(name), Images: s.images.byRef.deletion(name),
		Roles: s.grants.roles.deletion(name), Bindings: s.grants.bindings.byRef.deletion(name),
	}
}

// NamespaceFrom is HostFrom for a namespace.
func NamespaceFrom(namespace *v1.Namespace) *Namespace {
	return newNamespace(namespace.Name, namespace.Annotations)
}

// Unmerged returns a config with layers as it is before its source is merged over them: it is
// served as former, an earlier version of it, which may be nil.
func (c *Config) Unmerged(former *Config) *Config {
	out := *c
	if former == nil || former.Type != c.Type {
		former = &Config{Format: c.Format}
	}
	out.Artifact, out.Hash, out.ETag, out.Compiled = former.Artifact, former.Hash, former.ETag, former.Compiled
	out.IgnitionVersion, out.Servable, out.Unjudged = former.IgnitionVersion, former.Servable, former.Unjudged
	out.Template, out.Format = former.Template, former.Format
	out.Confidential = c.Confidential || former.Confidential
	out.Stale = len(out.Artifact) > 0
	out.adoptRule()
	return &out
}

// Remerged returns a config after its source was merged over layers as they are now: laid is
// the result, and merged has the layers of it. laid is nil where the config goes on to be
// served as before: since a layer is being compiled for the first time (isPending), or since
// the merge fails, for the reason in message.
func (c *Config) Remerged(laid *compile.Laid, merged []v1.LayerStatus, isPending bool, message string) *Config {
	out := *c
	out.Pending, out.Failing, out.ErrorMessage = isPending, laid == nil && !isPending, message
	out.Stale = len(out.Artifact) > 0 && (c.Stale || out.Failing)
	if laid != nil {
		stack := *c.Stack
		stack.Merged = merged
		out.Stack, out.Stale, out.Template = &stack, false, false
		if made := laid.Artifact; made.Hash != c.Hash {
			out.Artifact, out.Hash, out.ETag = made.Bytes, made.Hash, `"`+made.Hash+`"`
			out.IgnitionVersion, out.Servable, out.Unjudged = made.IgnitionVersion, 0, made.IgnitionVersion != ""
		}
	}
	out.adoptRule()
	return &out
}

// adoptRule gives a copy of a config a rule of its own.
func (c *Config) adoptRule() {
	rule := *c.rule
	rule.Config = c
	c.rule = &rule
}

// MatchesAs reports whether a config matches the same machines as another version of it, in the
// same way; both may be nil.
func (c *Config) MatchesAs(o *Config) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.Created.Equal(o.Created) && c.rule.Role == o.rule.Role && c.rule.Ties(o.rule)
}

// Subset returns an index of configs alone, which need not be stored, each of another name, with the
// islands of a view. Nil configs are left out.
func (v View) Subset(configs ...*Config) *match.Index {
	var rules []*match.Rule
	for _, c := range configs {
		if c != nil {
			rules = append(rules, c.rule)
		}
	}
	x := match.NewIndex(rules...)
	if v.Islands().Any() {
		x.SetIslands(new(shardmap.Edit), v.state.isIsland)
	}
	return x
}

// MatchEqually reports whether two configs match a machine and only their age puts one first. tier
// is that of b, and a goes before b.
func MatchEqually(q *match.Query, a, b *Config, tier match.Tier) bool {
	return match.Equal(a.rule, b.rule, tier, q)
}

// Shares reports whether a host has an address that another host has as well.
func (v View) Shares(h *Host) bool {
	if h == nil {
		return false
	}
	for _, hosts := range v.state.hosts.addressSharers(h) {
		if len(hosts) > 1 {
			return true
		}
	}
	return false
}

// Addresses are hardware and IP addresses.
type Addresses map[Conflict]bool

// Sharers returns the hosts that have an address of a host, which may be one of them. It looks only at
// addresses that are not in visited, and adds them: a search through hosts that all have one address
// lists them once.
func (v View) Sharers(h *Host, visited Addresses) (hosts []*Host) {
	if h == nil {
		return nil
	}
	for address, sharers := range v.state.hosts.addressSharers(h) {
		if !visited[address] {
			visited[address] = true
			hosts = append(hosts, sharers...)
		}
	}
	return hosts
}
