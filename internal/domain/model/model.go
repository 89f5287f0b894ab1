// Package model is what booting machines need of the stored objects: hosts, configs, images and namespaces, and the
// roles that make islands of these. A View holds them all, indexed by what machines are matched by. It does not
// change: a change makes another View, which shares nearly all with the former one.
package model

import (
	"iter"

	"glowplug/internal/domain/match"
	"glowplug/internal/domain/rbac"
	"glowplug/internal/domain/shardmap"
)

// Ref names an object. Where objects of the kind have no namespace, the name is in Namespace: see nameOnly.
type Ref = match.Ref

// View is all objects at one time. It may be kept.
type View struct{ state *state }

// state is the content of a View.
type state struct {
	hosts      hostIndex
	configs    configIndex
	images     imageIndex
	namespaces table[Namespace]
	grants     grants
	islands    islands
	// isolation says which namespaces are islands whatever is stored.
	isolation Isolation
}

// Empty returns a view without objects. The isolation says which namespaces are islands whatever is stored.
func Empty(isolation Isolation) View {
	return View{&state{isolation: isolation, islands: islands{isolation: isolation}}}
}

// Stored is an object in the store: its key, "{namespace}/{name}" or a name, its revision, and its JSON.
type Stored struct {
	Key      string
	Revision uint64
	Value    []byte
	// Foreign is true where another program has put the value into the store.
	Foreign bool
}

// Ref returns the name of the object.
func (s Stored) Ref() Ref { return refOf(s.Key) }

// Kind is a kind of objects in a View, each a T.
type Kind[T any] struct {
	// Name is the kind.
	Name   string
	decode func(Stored, *Interner) (*T, error)
	table  func(*state) *table[T]
	// put puts an object, which may be nil, in place of the one with that name.
	put func(s *state, edit *shardmap.Edit, ref Ref, object *T)
	// adopt takes over the objects of another state.
	adopt func(s, from *state)
	// derive derives what depends on an object that was put; nil: nothing does.
	derive func(s *state, edit *shardmap.Edit, ref Ref)
}

// The kinds of a View.
var (
	Hosts = &Kind[Host]{
		Name: "BareMetalHost", decode: decodeHost,
		table: func(s *state) *table[Host] { return &s.hosts.byRef },
		put:   func(s *state, edit *shardmap.Edit, ref Ref, h *Host) { s.hosts.put(edit, ref, h) },
		adopt: func(s, from *state) { s.hosts = from.hosts },
	}
	Configs = &Kind[Config]{
		Name: "IgnitionConfig", decode: decodeConfig,
		table: func(s *state) *table[Config] { return &s.configs.byRef },
		put: func(s *state, edit *shardmap.Edit, ref Ref, c *Config) {
			s.configs.put(edit, ref, c, s.isIsland(ref.Namespace))
		},
		adopt: func(s, from *state) {
			s.configs = from.configs
			s.configs.rules.SetIslands(new(shardmap.Edit), s.isIsland)
		},
	}
	Images = &Kind[Image]{
		Name: "ISCSICdrom", decode: decodeImage,
		table: func(s *state) *table[Image] { return &s.images.byRef },
		put:   func(s *state, edit *shardmap.Edit, ref Ref, i *Image) { s.images.put(edit, ref, i) },
		adopt: func(s, from *state) { s.images = from.images },
	}
	Namespaces = access("Namespace", decodeNamespace, (*state).deriveIslandOf,
		func(s *state) *table[Namespace] { return &s.namespaces })
	Roles = access("Role", decodeRole, (*state).deriveIslandOf,
		func(s *state) *table[Role] { return &s.grants.roles })
	ClusterRoles = access("ClusterRole", decodeRole, deriveAll,
		func(s *state) *table[Role] { return &s.grants.clusterRoles })
	ClusterRoleBindings = access("ClusterRoleBinding", decodeBinding, deriveAll,
		func(s *state) *table[Binding] { return &s.grants.clusterBindings })
	RoleBindings = &Kind[Binding]{
		Name: "RoleBinding", decode: decodeBinding, derive: (*state).deriveIslandOf,
		table: func(s *state) *table[Binding] { return &s.grants.bindings.byRef },
		put:   (*state).putBinding,
		adopt: func(s, from *state) { s.grants.bindings = from.grants.bindings },
	}
)

// access returns a kind whose objects have no index beside their table, and decide which namespaces are islands.
func access[T any](name string, decode func(Stored, *Interner) (*T, error), derive func(*state, *shardmap.Edit, Ref),
	of func(*state) *table[T]) *Kind[T] {
	return &Kind[T]{
		Name: name, decode: decode, derive: derive, table: of,
		put:   func(s *state, edit *shardmap.Edit, ref Ref, object *T) { of(s).put(edit, ref, object) },
		adopt: func(s, from *state) { *of(s) = *of(from) },
	}
}

// Decode reads a stored object. Objects that are decoded with one Interner share what is equal; nil: they share
// nothing. The error does not hold any of the value: it may have passwords.
func (k *Kind[T]) Decode(object Stored, in *Interner) (*T, error) { return k.decode(object, in) }

// Get returns the object of a name, or nil.
func (k *Kind[T]) Get(v View, ref Ref) *T { return k.table(v.state).get(ref) }

// All returns all objects, in no order.
func (k *Kind[T]) All(v View) iter.Seq[*T] { return k.table(v.state).all() }

// Count returns the number of objects.
func (k *Kind[T]) Count(v View) int { return k.table(v.state).len() }

// Put returns a view with an object, which may be nil, in place of the one with that name.
func (k *Kind[T]) Put(v View, ref Ref, object *T) View {
	next, edit := *v.state, new(shardmap.Edit)
	k.put(&next, edit, ref, object)
	if k.derive != nil {
		k.derive(&next, edit, ref)
	}
	return View{&next}
}

// Load builds the index of a kind, and returns a function that replaces the objects of the kind in a view by it.
func (k *Kind[T]) Load(objects iter.Seq2[Ref, *T]) func(View) View {
	loaded, edit := Empty(IsolateTenants).state, new(shardmap.Edit)
	for ref, object := range objects {
		k.put(loaded, edit, ref, object)
	}
	return func(v View) View {
		next := *v.state
		k.adopt(&next, loaded)
		if k.derive != nil {
			next.deriveAllIslands(edit)
		}
		return View{&next}
	}
}

// deriveIslandOf derives the islands after the change of an object in a namespace, or of a namespace.
func (s *state) deriveIslandOf(edit *shardmap.Edit, ref Ref) { s.deriveIslands(edit, ref.Namespace) }

// deriveAll derives them after the change of an object without a namespace.
func deriveAll(s *state, edit *shardmap.Edit, _ Ref) { s.deriveAllIslands(edit) }

// decodeBinding reads a RoleBinding or a ClusterRoleBinding. It keeps one that cannot be read: store/policy
// grants nothing by it and logs it, and the islands count with any grant.
func decodeBinding(object Stored, _ *Interner) (*Binding, error) {
	ref := object.Ref()
	namespace := ref.Namespace
	if ref.Name == "" {
		namespace = "" // it has none: see nameOnly
	}
	grant, err := rbac.ReadGrant(object.Value, namespace)
	return &Binding{Ref: ref, Grant: grant, Unreadable: err != nil}, nil
}

// decodeRole reads a Role or a ClusterRole.
func decodeRole(object Stored, _ *Interner) (*Role, error) {
	writes, err := rbac.ReadWrites(object.Value)
	return &Role{Ref: object.Ref(), Writes: writes}, err
}
