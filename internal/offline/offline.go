// Package offline knows the objects of manifests as a server would have them: it compiles and
// merges configs with their controller, decides about machines, and renders templates, without a store.
package offline

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller/template"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	domaintemplate "glowplug/internal/domain/template"
	"glowplug/internal/image"
	"glowplug/internal/manifest"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/objects"
	"glowplug/internal/store/rendering"
	"glowplug/internal/store/snapshot"
)

// Objects are objects in place of a store. They count as created in the same second, as by one apply.
type Objects struct {
	inventory *snapshot.Inventory
	items     map[string][]kvstore.Item // by resource
	places    map[string]string         // resource and key -> where the object stands
	configs   *configs
	renderer  *rendering.Cache
}

// New returns no objects yet. Add adds them, and Load completes them.
func New(isolation model.Isolation) *Objects {
	inv := snapshot.New(snapshot.Options{Isolation: isolation})
	return &Objects{
		inventory: inv, items: map[string][]kvstore.Item{}, places: map[string]string{}, configs: newConfigs(inv),
		renderer: rendering.New(rendering.Options{Inventory: inv, Server: domaintemplate.PlaceholderServer}),
	}
}

// Read returns the objects in manifest files and folders. Problems are what a server would refuse or warn of;
// such an object is left out, or has no artifact.
func Read(isolation model.Isolation, paths ...string) (o *Objects, problems []error, err error) {
	docs, err := manifest.Read(paths...)
	if err != nil {
		return nil, nil, err
	}
	o = New(isolation)
	for i := range docs {
		if err := o.addDocument(&docs[i]); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", docs[i].String(), err))
		}
	}
	return o, append(problems, o.Load()...), nil
}

func (o *Objects) addDocument(doc *manifest.Document) error {
	kind := kinds.InManifests(doc.Kind)
	switch {
	case doc.Err != nil:
		return doc.Err
	case kind == nil:
		return fmt.Errorf("%s %s is no kind of this server", doc.APIVersion, doc.Kind)
	}
	object := kind.New()
	if strict, err := doc.Decode(object); err != nil || len(strict) > 0 {
		return cmp.Or(err, errors.Join(strict...))
	}
	return o.Add(kind, object, doc.String())
}

// Add adds an object as the store would have it; place is where it stands, for messages. The error says
// why a server would refuse it, or, of an object that is added nevertheless, why it does not compile.
func (o *Objects) Add(kind *kinds.Kind, object runtime.Object, place string) error {
	m, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	m.SetCreationTimestamp(metav1.NewTime(time.Unix(1, 0).UTC()))
	m.SetGeneration(1)
	key := m.GetName()
	if kind.Namespaced {
		m.SetNamespace(cmp.Or(m.GetNamespace(), v1.NamespaceDefault))
		key = m.GetNamespace() + "/" + key
	}
	if errs := kind.Check(object); len(errs) > 0 {
		return errs.ToAggregate()
	}
	m.SetUID(types.UID(key))
	if earlier, twice := o.places[kind.Resource+"/"+key]; twice {
		return fmt.Errorf("%s %s stands already at %s", kind.Name, key, earlier)
	}
	o.places[kind.Resource+"/"+key] = place
	revision := uint64(len(o.places))
	var failure error
	switch object := object.(type) {
	case *v1.IgnitionConfig:
		failure = o.configs.add(object, revision, place)
	case *v1.ISCSICdrom:
		object.Status = imageStatus(object)
	}
	value, err := objects.Stored(kind).Codec.Encode(object)
	if err != nil {
		return err
	}
	o.items[kind.Resource] = append(o.items[kind.Resource], kvstore.Item{Key: key, Revision: revision, Value: value})
	return failure
}

// Load makes the added objects known to each other, and merges configs over their layers. Problems are of
// that merge.
func (o *Objects) Load() (problems []error) {
	inv := o.inventory
	inv.Images().Load(o.items[kinds.ISCSICdroms])
	inv.Configs().Load(o.items[kinds.IgnitionConfigs])
	inv.Namespaces().Load(o.items[kinds.Namespaces])
	inv.Roles().Load(o.items[kinds.Roles])
	inv.RoleBindings().Load(o.items[kinds.RoleBindings])
	inv.ClusterRoles().Load(append(builtinRoles(), o.items[kinds.ClusterRoles]...))
	inv.ClusterRoleBindings().Load(o.items[kinds.ClusterRoleBindings])
	inv.Hosts().Load(o.items[kinds.BareMetalHosts])
	return o.configs.reconcile()
}

// Decider decides about machines as a server with these objects does.
func (o *Objects) Decider() *decide.Decider {
	return decide.New(decide.Options{Inventory: o.inventory, Renderer: o.renderer})
}

// Hosts returns the hosts, in no order.
func (o *Objects) Hosts() []*model.Host {
	view := o.inventory.View()
	return view.Hosts()
}

// HostRendering is a template rendered for one host.
type HostRendering = template.HostRendering

// Render renders every template for its hosts, and calls yield for each.
func (o *Objects) Render(yield func(*HostRendering)) {
	template.Preview(o.inventory, decide.New(decide.Options{Inventory: o.inventory}), yield)
}

// builtinRoles returns the ClusterRoles that each store has.
func builtinRoles() (items []kvstore.Item) {
	for _, role := range kinds.BuiltinRoles() {
		value, err := json.Marshal(role)
		if err != nil {
			panic(err) // it is fixed
		}
		items = append(items, kvstore.Item{Key: role.Name, Value: value})
	}
	return items
}

// imageStatus returns the status of an image whose file is there, which only a server
// can check.
func imageStatus(cdrom *v1.ISCSICdrom) v1.ISCSICdromStatus {
	status := v1.ISCSICdromStatus{
		Phase:     v1.PhaseReady,
		TargetIQN: image.IQN(image.Ref{Namespace: cdrom.Namespace, Name: cdrom.Name}),
	}
	if stream := cdrom.Spec.Stream; stream != nil {
		status.ServedRelease, status.MaxIgnition = stream.Release, ignition.MaxOfRelease(stream.Release)
	}
	return status
}
