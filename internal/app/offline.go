package app

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller/template"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/image"
	"glowplug/internal/manifest"
	"glowplug/internal/serve/api"
	"glowplug/internal/store/kinds"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/rendering"
	"glowplug/internal/store/snapshot"
)

// Offline decides over manifests instead of a store. Objects count as created
// in the order in which they stand, a second apart. Problems are what a server
// would have refused or warned of; such an object is left out, or has no artifact.
func Offline(policy decide.Policy, paths ...string) (d *decide.Decider, problems []error, err error) {
	inv, problems, err := index(paths...)
	if err != nil {
		return nil, nil, err
	}
	renderer := rendering.New(rendering.Options{Inventory: inv})
	d = decide.New(decide.Options{Inventory: inv, Policy: policy, Renderer: renderer})
	return d, problems, nil
}

// HostRendering is a template rendered for one host.
type HostRendering = template.HostRendering

// RenderManifests renders every template in manifests for the hosts in them that would be
// given it, and calls yield with one after the other. An object that no server would take
// is left out.
func RenderManifests(yield func(*HostRendering), paths ...string) error {
	inv, _, err := index(paths...)
	if err == nil {
		template.Preview(inv, decide.New(decide.Options{Inventory: inv}), yield)
	}
	return err
}

// ManifestHosts returns the hosts in manifests, in no order. Problems are what a server
// would have refused.
func ManifestHosts(paths ...string) (hosts []*snapshot.Host, problems []error, err error) {
	inv, problems, err := index(paths...)
	if err != nil {
		return nil, nil, err
	}
	view := inv.View()
	return view.Hosts(), problems, nil
}

// index loads manifests in place of a store.
func index(paths ...string) (inv *snapshot.Inventory, problems []error, err error) {
	docs, err := manifest.Read(paths...)
	if err != nil {
		return nil, nil, err
	}
	inv = snapshot.New(snapshot.Options{})
	l := loader{items: map[string][]kvstore.Item{}, seen: map[string]string{}, configs: newOfflineConfigs(inv)}
	for i := range docs {
		if err := l.add(&docs[i], i); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", docs[i].String(), err))
		}
	}
	inv.Images().Load(l.items[kinds.ISCSICdroms])
	inv.Configs().Load(l.items[kinds.IgnitionConfigs])
	inv.Hosts().Load(l.items[kinds.BareMetalHosts])
	return inv, append(problems, l.configs.reconcile()...), nil
}

// loader makes stored values of documents.
type loader struct {
	items   map[string][]kvstore.Item // by resource
	seen    map[string]string         // resource and key -> where it stands
	configs *offlineConfigs
}

func (l *loader) add(doc *manifest.Document, index int) error {
	if doc.Err != nil {
		return doc.Err
	}
	switch doc.Kind {
	case "IgnitionConfig":
		config := &v1.IgnitionConfig{}
		return l.store(doc, index, kinds.IgnitionConfigs, config, &config.ObjectMeta,
			func() field.ErrorList { return v1.ValidateIgnitionConfig(config) },
			func() error { return l.configs.add(config, index, doc.String()) })
	case "BareMetalHost":
		host := &v1.BareMetalHost{}
		return l.store(doc, index, kinds.BareMetalHosts, host, &host.ObjectMeta,
			func() field.ErrorList { return v1.ValidateBareMetalHost(host) }, nil)
	case "ISCSICdrom":
		cdrom := &v1.ISCSICdrom{}
		return l.store(doc, index, kinds.ISCSICdroms, cdrom, &cdrom.ObjectMeta,
			func() field.ErrorList { return v1.ValidateISCSICdrom(cdrom) },
			func() error {
				// Whether its file is there only a server can tell.
				cdrom.Status = v1.ISCSICdromStatus{Phase: v1.PhaseReady,
					TargetIQN: image.IQN(image.Ref{Namespace: cdrom.Namespace, Name: cdrom.Name})}
				if s := cdrom.Spec.Stream; s != nil {
					cdrom.Status.ServedRelease, cdrom.Status.MaxIgnition = s.Release, ignition.MaxOfRelease(s.Release)
				}
				return nil
			})
	case "StreamRelease":
		release := &v1.StreamRelease{}
		return l.store(doc, index, kinds.StreamReleases, release, &release.ObjectMeta,
			func() field.ErrorList { return api.ValidateStreamRelease(release) }, nil)
	case "ConfigMap":
		cm := &v1.ConfigMap{}
		return l.store(doc, index, kinds.ConfigMaps, cm, &cm.ObjectMeta,
			func() field.ErrorList { return v1.ValidateConfigMap(cm) }, nil)
	case "Namespace":
		return nil
	}
	return fmt.Errorf("%s %s is no kind of this server", doc.APIVersion, doc.Kind)
}

// store reads a document into obj, checks it, and keeps it as the store would
// have it. What finish finds is reported, and the object kept all the same.
func (l *loader) store(doc *manifest.Document, index int, resource string, obj runtime.Object, meta *metav1.ObjectMeta,
	check func() field.ErrorList, finish func() error) error {
	if err := yaml.UnmarshalStrict(doc.YAML, obj); err != nil {
		return err
	}
	meta.CreationTimestamp = metav1.NewTime(time.Unix(int64(index), 0).UTC())
	meta.Generation = 1
	key := meta.Name
	if resource != kinds.StreamReleases { // which have no namespace
		if meta.Namespace == "" {
			meta.Namespace = v1.NamespaceDefault
		}
		key = meta.Namespace + "/" + meta.Name
	}
	if errs := check(); len(errs) > 0 {
		return errs.ToAggregate()
	}
	meta.UID = types.UID(key)
	if earlier, twice := l.seen[resource+"/"+key]; twice {
		return fmt.Errorf("%s %s stands already at %s", doc.Kind, key, earlier)
	}
	l.seen[resource+"/"+key] = doc.String()
	var found error
	if finish != nil {
		found = finish()
	}
	value, err := codecs[resource].Encode(obj)
	if err != nil {
		return err
	}
	l.items[resource] = append(l.items[resource], kvstore.Item{Key: key, Revision: uint64(index + 1), Value: value})
	return found
}

// codecs write objects as the store holds them.
var codecs = func() map[string]kvstore.Codec {
	byResource := map[string]kvstore.Codec{}
	for _, kind := range kinds.All() {
		byResource[kind.Resource] = kind.Codec
	}
	return byResource
}()
