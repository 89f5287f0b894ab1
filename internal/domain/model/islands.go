package model

import (
	"cmp"
	"maps"
	"slices"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/rbac"
	"glowplug/internal/domain/shardmap"
)

// DefaultNamespace is the namespace that unknown machines count to.
const DefaultNamespace = "default"

// Isolation says which namespaces are islands, beside those that tenants may write.
type Isolation uint8

// The isolations: no others; all but the namespace default, as in stores that an earlier release has isolated; all.
const (
	IsolateTenants Isolation = iota
	IsolateOthers
	IsolateAll
)

// Values of the mark of a namespace, its annotation glowplug.dev/island: it is an island, or an administrator says
// that it is none.
const (
	islandMark = "true"
	openMark   = "false"
)

// Binding is a RoleBinding, or a ClusterRoleBinding, which has no namespace. It is immutable.
type Binding struct {
	Ref
	Grant rbac.Grant
	// Unreadable is true for a stored value that cannot be read: it may grant anything.
	Unreadable bool
}

// Role is a Role, or a ClusterRole, which has no namespace. It is immutable.
type Role struct {
	Ref
	Writes rbac.Writes
}

// Island says why a namespace is an island.
type Island struct {
	// Binding lets Tenant, such as "User ann", write in the namespace; zero: no binding does.
	Binding Ref
	Tenant  string
	// Marked is true where the annotation of the namespace says it.
	Marked bool
}

// String returns a sentence without its full stop.
func (i Island) String() string {
	switch {
	case i.Tenant != "":
		return "the RoleBinding " + i.Binding.String() + " lets " + i.Tenant + " write in it"
	case i.Binding != (Ref{}):
		return "the RoleBinding " + i.Binding.String() + " cannot be read, and may let anybody write in it"
	case i.Marked:
		return "its annotation glowplug.dev/island says so"
	}
	return "all namespaces are isolated"
}

// islands are the namespaces that are islands, derived from their marks and from the roles and bindings.
type islands struct {
	// isolation is that of the namespace default, or of the option where that isolates more.
	isolation Isolation
	// byName has those that are marked, or that a tenant may write, and open those whose mark says that they are none.
	byName shardmap.Map[string, Island]
	open   shardmap.Map[string, struct{}]
	// version changes with each change of the others. It tells a view from those that were made of it.
	version int
}

// grants are the roles and bindings.
type grants struct {
	roles, clusterRoles table[Role]
	bindings            struct {
		byRef       table[Binding]
		byNamespace shardmap.Map[string, []*Binding]
	}
	clusterBindings table[Binding]
	// everywhere is derived from the cluster's roles and bindings.
	everywhere rbac.Everywhere
}

// nameOnly is the Ref of an object without a namespace, as refOf reads it from a key.
func nameOnly(name string) Ref { return Ref{Namespace: name} }

func (s *state) putBinding(edit *shardmap.Edit, ref Ref, b *Binding) {
	byNamespace := func(b *Binding, isListed bool) {
		if b != nil {
			shardmap.SetListed(edit, &s.grants.bindings.byNamespace, b.Namespace, b, isListed,
				func(a, b *Binding) int { return a.Ref.Compare(b.Ref) })
		}
	}
	byNamespace(s.grants.bindings.byRef.get(ref), false)
	byNamespace(b, true)
	s.grants.bindings.byRef.put(edit, ref, b)
}

// writes returns what the role of a binding lets write.
func (s *state) writes(b *Binding) rbac.Writes {
	named := b.Grant.Role
	role := s.grants.clusterRoles.get(nameOnly(named.Name))
	if named.Namespace != "" {
		role = s.grants.roles.get(Ref{Namespace: named.Namespace, Name: named.Name})
	}
	if role == nil {
		return rbac.Writes{}
	}
	return role.Writes
}

// deriveIslands finds out again which of some namespaces are islands, after a change of their marks, roles or
// bindings.
func (s *state) deriveIslands(edit *shardmap.Edit, namespaces ...string) {
	before := s.islands.version
	for _, name := range namespaces {
		s.deriveIsland(edit, name)
	}
	if s.islands.version != before {
		s.configs.rules.SetIslands(edit, s.isIsland)
	}
}

func (s *state) deriveIsland(edit *shardmap.Edit, name string) {
	all, mark := s.islands.isolation, ""
	if n := s.namespaces.get(nameOnly(name)); n != nil {
		mark = n.Island
		if name == DefaultNamespace {
			all = max(s.isolation, n.isolation())
		}
	} else if name == DefaultNamespace {
		all = s.isolation
	}
	island, isIsland := Island{Marked: mark == islandMark}, mark == islandMark
	for _, b := range s.grants.bindings.byNamespace.Get(name) {
		if tenant := b.Grant.Tenant(s.writes(b), s.grants.everywhere); tenant != "" || b.Unreadable {
			island.Binding, island.Tenant, isIsland = b.Ref, tenant, true
			break
		}
	}
	isOpen := mark == openMark
	isIsland = isIsland && !isOpen
	x := &s.islands
	if was := x.byName.Get(name); x.byName.Has(name) == isIsland && (!isIsland || was == island) &&
		x.open.Has(name) == isOpen && x.isolation == all {
		return
	}
	x.isolation, x.version = all, x.version+1
	if x.byName.Delete(edit, name); isIsland {
		x.byName.Set(edit, name, island)
	}
	if x.open.Delete(edit, name); isOpen {
		x.open.Set(edit, name, struct{}{})
	}
}

// deriveAllIslands is deriveIslands for all namespaces, after a change of what has no namespace.
func (s *state) deriveAllIslands(edit *shardmap.Edit) {
	s.grants.everywhere = rbac.Everywhere{}
	for b := range s.grants.clusterBindings.all() {
		s.grants.everywhere.Add(b.Grant, s.writes(b))
	}
	names := map[string]bool{DefaultNamespace: true}
	for n := range s.namespaces.all() {
		names[n.Name] = true
	}
	for name := range s.grants.bindings.byNamespace.All() {
		names[name] = true
	}
	for name := range s.islands.byName.All() {
		names[name] = true
	}
	for name := range s.islands.open.All() {
		names[name] = true
	}
	s.deriveIslands(edit, slices.Collect(maps.Keys(names))...)
}

// isIsland reports whether a namespace is an island.
func (s *state) isIsland(name string) bool {
	x := &s.islands
	switch {
	case s.isolation == IsolateAll || x.byName.Has(name):
		return true
	case x.isolation == IsolateTenants || name == DefaultNamespace:
		return false
	}
	return s.isolation == IsolateOthers || !x.open.Has(name)
}

// Islands are the namespaces that are islands.
type Islands struct{ state *state }

// Islands returns the islands of a view.
func (v View) Islands() Islands { return Islands(v) }

// Has reports whether a namespace is an island: its configs and images are for its own hosts, and its hosts
// have no others.
func (x Islands) Has(namespace string) bool { return x.state.isIsland(namespace) }

// Why returns the reason why a namespace is an island; ok is false if it is not an island.
func (x Islands) Why(namespace string) (why Island, ok bool) {
	return x.state.islands.byName.Get(namespace), x.state.isIsland(namespace)
}

// Marked returns a namespace, which need not be stored, with the mark of an island.
func (x Islands) Marked(name string) *Namespace {
	marked := *View(x).namespace(name)
	marked.Name, marked.Island = name, islandMark
	return &marked
}

// Any reports whether any namespace is an island.
func (x Islands) Any() bool {
	return x.state.islands.isolation != IsolateTenants || x.state.islands.byName.Len() > 0
}

// Separate reports whether the objects of one namespace are not for the hosts of another.
func (x Islands) Separate(namespace, other string) bool {
	return namespace != other && (x.state.isIsland(namespace) || x.state.isIsland(other))
}

// Tenants returns the namespaces that are islands since a binding says so, and whose annotation does not say it yet.
func (x Islands) Tenants() (names []string) {
	for name, island := range x.state.islands.byName.All() {
		if !island.Marked {
			names = append(names, name)
		}
	}
	return names
}

// Changed returns the namespaces with marks, roles or bindings that are islands in one view alone, in no
// order, and whether others are.
func (x Islands) Changed(o Islands) (names []string, others bool) {
	if x.state.islands.version == o.state.islands.version {
		return nil, false
	}
	seen := map[string]bool{}
	for _, one := range [...]*islands{&x.state.islands, &o.state.islands} {
		for name := range one.byName.All() {
			seen[name] = true
		}
		for name := range one.open.All() {
			seen[name] = true
		}
	}
	for name := range seen {
		if x.state.isIsland(name) != o.state.isIsland(name) {
			names = append(names, name)
		}
	}
	return names, x.state.islands.isolation != o.state.islands.isolation
}

// Version changes with each change of the islands.
func (x Islands) Version() int { return x.state.islands.version }

// Same reports whether the same namespaces are islands in both.
func (x Islands) Same(o Islands) bool {
	names, others := x.Changed(o)
	return len(names) == 0 && !others
}

// namespace returns a Namespace, which must not be changed; an empty one: there is none of that name.
func (v View) namespace(name string) *Namespace {
	return cmp.Or(v.state.namespaces.get(nameOnly(name)), &noNamespace)
}

var noNamespace Namespace

// HasNamespace reports whether there is a Namespace of that name.
func (v View) HasNamespace(name string) bool { return v.state.namespaces.get(nameOnly(name)) != nil }

// first returns the host that wins of those with a fact in common, in the order of their age: one of a namespace
// that is no island goes first, since tenants cannot write it.
func (v View) first(hosts []*Host) *Host {
	if len(hosts) > 1 && v.Islands().Any() {
		for _, h := range hosts {
			if !v.state.isIsland(h.Namespace) {
				return h
			}
		}
	}
	return firstOf(hosts)
}

// Namespace is the part of a Namespace that booting needs. It is immutable.
type Namespace struct {
	Name string
	// IPXE is the script of hosts that have none of their own, a template; "": none.
	IPXE string
	// RejectsBroken is true where a config whose source does not compile is refused.
	RejectsBroken bool
	// Island is its annotation glowplug.dev/island: "true", "false" or "".
	Island string
	// Isolated is true where an earlier release has isolated all namespaces; that of the namespace
	// default counts.
	Isolated bool
	// Provisioning are the limits of hosts that have none of their own.
	Provisioning v1.Provisioning
	// InstallDevice is the disk on which hosts install a system if neither they nor their images name one; "": it names
	// none.
	InstallDevice string
}

// isolation returns the isolation by the namespace default.
func (n *Namespace) isolation() Isolation {
	if n.Isolated {
		return IsolateOthers
	}
	return IsolateTenants
}
