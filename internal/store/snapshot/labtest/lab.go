// Package labtest has, for tests, hosts, configs and images in an inventory, and the machines that ask about
// them.
package labtest

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
)

// Lab is the objects of a test; each one is younger than the one before it.
type Lab struct {
	Hosts   []*v1.BareMetalHost
	Configs []*v1.IgnitionConfig
	Images  []*v1.ISCSICdrom
}

// Epoch is when the oldest objects were created.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Meta returns the metadata of an object, created age minutes after Epoch.
func Meta(namespace, name string, age int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: "uid-1", Generation: 1,
		CreationTimestamp: metav1.NewTime(Epoch.Add(time.Duration(age) * time.Minute)),
	}
}

// Host adds a host and gives it for further changes.
func (l *Lab) Host(namespace, name, mac, ip string, labels ...string) *v1.BareMetalHost {
	h := &v1.BareMetalHost{ObjectMeta: Meta(namespace, name, len(l.Hosts))}
	h.Spec.BootMACAddress, h.Spec.IP = mac, ip
	for i := 0; i < len(labels); i += 2 {
		if h.Spec.Labels == nil {
			h.Spec.Labels = map[string]string{}
		}
		h.Spec.Labels[labels[i]] = labels[i+1]
	}
	l.Hosts = append(l.Hosts, h)
	return h
}

// Config adds a config that has compiled.
func (l *Lab) Config(namespace, name, typ string, sel v1.IgnitionConfigSelector) *v1.IgnitionConfig {
	c := &v1.IgnitionConfig{ObjectMeta: Meta(namespace, name, len(l.Configs))}
	c.Spec = v1.IgnitionConfigSpec{Type: typ, Format: typ, Config: "source of " + name, Selector: sel}
	c.Compiled = &v1.Compiled{Artifact: []byte("artifact of " + name), Hash: "sha256:" + name, Generation: 1}
	if typ == v1.TypeIgnition {
		c.Compiled.IgnitionVersion = "3.4.0"
	}
	l.Configs = append(l.Configs, c)
	return c
}

// Image adds an image that is not ready.
func (l *Lab) Image(namespace, name, config string) {
	i := &v1.ISCSICdrom{ObjectMeta: Meta(namespace, name, len(l.Images))}
	i.Spec.IgnitionConfig = config
	l.Images = append(l.Images, i)
}

// stored is how the store writes a config: with the compilation as a member.
func stored(t testing.TB, c *v1.IgnitionConfig) []byte {
	t.Helper()
	return Marshal(t, struct {
		*v1.IgnitionConfig
		Compiled *v1.Compiled `json:"compiled,omitempty"`
	}{c, c.Compiled})
}

// Marshal returns the JSON of an object.
func Marshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Inventory loads the objects.
func (l *Lab) Inventory(t testing.TB) *snapshot.Inventory {
	t.Helper()
	return l.InventoryWith(t, snapshot.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

// Isolated is Inventory for a store that an earlier release has isolated.
func (l *Lab) Isolated(t testing.TB) *snapshot.Inventory {
	t.Helper()
	inv := l.Inventory(t)
	Mark(inv, "default", "isolated", "true")
	return inv
}

// Mark gives a namespace an annotation of glowplug.
func Mark(inv *snapshot.Inventory, namespace, key, value string) {
	inv.Namespaces().Put(kvstore.Item{Key: namespace, Revision: 2, Value: fmt.Appendf(nil,
		`{"metadata":{"name":%q,"annotations":{"glowplug.dev/%s":%q}}}`, namespace, key, value)})
}

// InventoryWith is Inventory with options.
func (l *Lab) InventoryWith(t testing.TB, opts snapshot.Options) *snapshot.Inventory {
	t.Helper()
	inv := snapshot.New(opts)
	var hosts, configs, images []kvstore.Item
	for _, h := range l.Hosts {
		hosts = append(hosts, kvstore.Item{Key: h.Namespace + "/" + h.Name, Revision: 1, Value: Marshal(t, h)})
	}
	for _, c := range l.Configs {
		configs = append(configs, kvstore.Item{Key: c.Namespace + "/" + c.Name, Revision: 1, Value: stored(t, c)})
	}
	for _, i := range l.Images {
		images = append(images, kvstore.Item{Key: i.Namespace + "/" + i.Name, Revision: 1, Value: Marshal(t, i)})
	}
	inv.Hosts().Load(hosts)
	inv.Configs().Load(configs)
	inv.Images().Load(images)
	if s := inv.Stats(); s.Hosts.Bad+s.Configs.Bad+s.Images.Bad > 0 {
		t.Fatalf("objects of the test are bad: %+v", s)
	}
	return inv
}

// Item is a stored value.
func Item(key, value string) kvstore.Item {
	return kvstore.Item{Key: key, Revision: 2, Value: []byte(value)}
}
