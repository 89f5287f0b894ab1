package app

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Offline returns a Decider over manifests instead of a store. Objects count as created in
// the same second, as by one apply. Problems are what a server would refuse or warn of; such an
// object is left out, or has no artifact.
func Offline(isolation model.Isolation, paths ...string) (d *decide.Decider, problems []error, err error) {
	inv, problems, err := index(isolation, paths...)
	if err != nil {
		return nil, nil, err
	}
	renderer := rendering.New(rendering.Options{Inventory: inv, Server: domaintemplate.PlaceholderServer})
	d = decide.New(decide.Options{Inventory: inv, Renderer: renderer})
	return d, problems, nil
}

// HostRendering is a template rendered for one host.
type HostRendering = template.HostRendering

// RenderManifests renders every template in manifests for its hosts in them, and calls
// yield for each. An object that a server would refuse is left out.
func RenderManifests(yield func(*HostRendering), paths ...string) error {
	inv, _, err := index(model.IsolateTenants, paths...)
	if err == nil {
		template.Preview(inv, decide.New(decide.Options{Inventory: inv}), yield)
	}
	return err
}

// ManifestHosts returns the hosts in manifests, in no order. Problems are what a server
// would refuse.
func ManifestHosts(paths ...string) (hosts []*model.Host, problems []error, err error) {
	inv, problems, err := index(model.IsolateTenants, paths...)
	if err != nil {
		return nil, nil, err
	}
	view := inv.View()
	return view.Hosts(), problems, nil
}

// index loads manifests in place of a store.
func index(isolation model.Isolation, paths ...string) (inv *snapshot.Inventory, problems []error, err error) {
	docs, err := manifest.Read(paths...)
	if err != nil {
		return nil, nil, err
	}
	inv = snapshot.New(snapshot.Options{Isolation: isolation})
	l := loader{items: map[string][]kvstore.Item{}, seen: map[string]string{}, configs: newOfflineConfigs(inv)}
	for i := range docs {
		if err := l.add(&docs[i], i); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", docs[i].String(), err))
		}
	}
	inv.Images().Load(l.items[kinds.ISCSICdroms])
	inv.Configs().Load(l.items[kinds.IgnitionConfigs])
	inv.Namespaces().Load(l.items[kinds.Namespaces])
	inv.Roles().Load(l.items[kinds.Roles])
	inv.RoleBindings().Load(l.items[kinds.RoleBindings])
	inv.ClusterRoles().Load(append(builtinRoles(), l.items[kinds.ClusterRoles]...))
	inv.ClusterRoleBindings().Load(l.items[kinds.ClusterRoleBindings])
	inv.Hosts().Load(l.items[kinds.BareMetalHosts])
	return inv, append(problems, l.configs.reconcile()...), nil
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

// loader makes stored values of documents.
type loader struct {
	items   map[string][]kvstore.Item // by resource
	seen    map[string]string         // resource and key -> position of the document
	configs *offlineConfigs
}

// add keeps the object of a document as the store would have it. Some errors concern an
// object that is kept nevertheless.
func (l *loader) add(doc *manifest.Document, index int) error {
	kind := kinds.InManifests(doc.Kind)
	switch {
	case doc.Err != nil:
		return doc.Err
	case kind == nil:
		return fmt.Errorf("%s %s is no kind of this server", doc.APIVersion, doc.Kind)
	}
	obj := kind.New()
	if strict, err := doc.Decode(obj); err != nil || len(strict) > 0 {
		return cmp.Or(err, errors.Join(strict...))
	}
	object, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	object.SetCreationTimestamp(metav1.NewTime(time.Unix(1, 0).UTC()))
	object.SetGeneration(1)
	key := object.GetName()
	if kind.Namespaced {
		object.SetNamespace(cmp.Or(object.GetNamespace(), v1.NamespaceDefault))
		key = object.GetNamespace() + "/" + key
	}
	if errs := kind.Check(obj); len(errs) > 0 {
		return errs.ToAggregate()
	}
	object.SetUID(types.UID(key))
	if earlier, twice := l.seen[kind.Resource+"/"+key]; twice {
		return fmt.Errorf("%s %s stands already at %s", doc.Kind, key, earlier)
	}
	l.seen[kind.Resource+"/"+key] = doc.String()
	var failure error
	switch o := obj.(type) {
	case *v1.IgnitionConfig:
		failure = l.configs.add(o, index, doc.String())
	case *v1.ISCSICdrom:
		o.Status = offlineStatus(o)
	}
	value, err := objects.Stored(kind).Codec.Encode(obj)
	if err != nil {
		return err
	}
	item := kvstore.Item{Key: key, Revision: uint64(index + 1), Value: value}
	l.items[kind.Resource] = append(l.items[kind.Resource], item)
	return failure
}

// offlineStatus returns the status of an image whose file is there, which only a server
// can check.
func offlineStatus(cdrom *v1.ISCSICdrom) v1.ISCSICdromStatus {
	status := v1.ISCSICdromStatus{
		Phase:     v1.PhaseReady,
		TargetIQN: image.IQN(image.Ref{Namespace: cdrom.Namespace, Name: cdrom.Name}),
	}
	if stream := cdrom.Spec.Stream; stream != nil {
		status.ServedRelease, status.MaxIgnition = stream.Release, ignition.MaxOfRelease(stream.Release)
	}
	return status
}
