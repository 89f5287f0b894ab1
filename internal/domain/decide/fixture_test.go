package decide

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
)

// lab is the objects of a test; each one is younger than the one before it.
type lab struct {
	hosts   []*v1.BareMetalHost
	configs []*v1.IgnitionConfig
	images  []*v1.ISCSICdrom
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func meta(namespace, name string, age int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: "uid-1", Generation: 1,
		CreationTimestamp: metav1.NewTime(epoch.Add(time.Duration(age) * time.Minute)),
	}
}

// host adds a host and gives it for further changes.
func (l *lab) host(namespace, name, mac, ip string, labels ...string) *v1.BareMetalHost {
	h := &v1.BareMetalHost{ObjectMeta: meta(namespace, name, len(l.hosts))}
	h.Spec.BootMACAddress, h.Spec.IP = mac, ip
	for i := 0; i < len(labels); i += 2 {
		if h.Spec.Labels == nil {
			h.Spec.Labels = map[string]string{}
		}
		h.Spec.Labels[labels[i]] = labels[i+1]
	}
	l.hosts = append(l.hosts, h)
	return h
}

// config adds a config that has compiled.
func (l *lab) config(namespace, name, typ string, sel v1.IgnitionConfigSelector) *v1.IgnitionConfig {
	c := &v1.IgnitionConfig{ObjectMeta: meta(namespace, name, len(l.configs))}
	c.Spec = v1.IgnitionConfigSpec{Type: typ, Format: typ, Config: "source of " + name, Selector: sel}
	c.Compiled = &v1.Compiled{Artifact: []byte("artifact of " + name), Hash: "sha256:" + name, Generation: 1}
	if typ == v1.TypeIgnition {
		c.Compiled.IgnitionVersion = "3.4.0"
	}
	l.configs = append(l.configs, c)
	return c
}

func (l *lab) image(namespace, name, config string) {
	i := &v1.ISCSICdrom{ObjectMeta: meta(namespace, name, len(l.images))}
	i.Spec.IgnitionConfig = config
	l.images = append(l.images, i)
}

// stored is how the store writes a config: with the compilation as a member.
func stored(t testing.TB, c *v1.IgnitionConfig) []byte {
	t.Helper()
	return marshal(t, struct {
		*v1.IgnitionConfig
		Compiled *v1.Compiled `json:"compiled,omitempty"`
	}{c, c.Compiled})
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// inventory loads the objects.
func (l *lab) inventory(t testing.TB) *snapshot.Inventory {
	t.Helper()
	return l.inventoryWith(t, snapshot.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

// isolated is inventory for a store that an earlier release has isolated.
func (l *lab) isolated(t testing.TB) *snapshot.Inventory {
	t.Helper()
	inv := l.inventory(t)
	mark(inv, "default", "isolated", "true")
	return inv
}

// mark gives a namespace an annotation of glowplug.
func mark(inv *snapshot.Inventory, namespace, key, value string) {
	inv.Namespaces().Put(kvstore.Item{Key: namespace, Revision: 2, Value: fmt.Appendf(nil,
		`{"metadata":{"name":%q,"annotations":{"glowplug.dev/%s":%q}}}`, namespace, key, value)})
}

func (l *lab) inventoryWith(t testing.TB, opts snapshot.Options) *snapshot.Inventory {
	t.Helper()
	inv := snapshot.New(opts)
	var hosts, configs, images []kvstore.Item
	for _, h := range l.hosts {
		hosts = append(hosts, kvstore.Item{Key: h.Namespace + "/" + h.Name, Revision: 1, Value: marshal(t, h)})
	}
	for _, c := range l.configs {
		configs = append(configs, kvstore.Item{Key: c.Namespace + "/" + c.Name, Revision: 1, Value: stored(t, c)})
	}
	for _, i := range l.images {
		images = append(images, kvstore.Item{Key: i.Namespace + "/" + i.Name, Revision: 1, Value: marshal(t, i)})
	}
	inv.Hosts().Load(hosts)
	inv.Configs().Load(configs)
	inv.Images().Load(images)
	if s := inv.Stats(); s.Hosts.Bad+s.Configs.Bad+s.Images.Bad > 0 {
		t.Fatalf("objects of the test are bad: %+v", s)
	}
	return inv
}

// ask is a request, as a test writes it.
type ask struct {
	endpoint       string // default: ignition
	from, neighbor string
	former         string // what neighbor has lately been
	believed       bool
	mac, ip        string
	otherMAC       string
	hostname, uuid string
	role, accept   string
	arch           string
	raw            bool
}

func (a ask) request(t testing.TB) *Request {
	t.Helper()
	r := &Request{Type: a.endpoint, Accept: a.accept}
	if r.Type == "" {
		r.Type = Ignition
	}
	mac := func(s string) (m netaddr.MAC) {
		if s != "" {
			var err error
			if m, err = netaddr.ParseMAC(s); err != nil {
				t.Fatal(err)
			}
		}
		return m
	}
	r.Caller = identity.Caller{MAC: mac(a.neighbor), Former: mac(a.former), Believed: a.believed}
	if a.from != "" {
		r.Caller.Addr = netip.MustParseAddr(a.from)
	}
	r.Claims = identity.Claims{MAC: mac(a.mac), Hostname: a.hostname, UUID: a.uuid, Role: a.role, Raw: a.raw,
		Arch: a.arch, OtherMAC: a.otherMAC}
	if a.ip != "" {
		r.Claims.IP = netip.MustParseAddr(a.ip)
	}
	return r
}

// notices lists the reasons and hosts of notices.
func notices(all []Notice) []string {
	var out []string
	for _, n := range all {
		s := n.Reason
		if n.Host != nil {
			s += " " + n.Host.Ref.String()
		}
		out = append(out, s)
	}
	return out
}

func explainedNotices(e *Explanation) []string {
	var out []string
	for _, n := range e.Notices {
		s := n.Reason
		if n.Host != "" {
			s += " " + n.Host
		}
		out = append(out, s)
	}
	return out
}

// outcome is a decision in a few comparable words.
func outcome(d *ConfigDecision) string {
	status, host, config := 200, "-", "-"
	if d.Err != nil {
		status = d.Err.Kind.Status()
	}
	if d.Host != nil {
		host = d.Host.Ref.String() + " by " + d.FoundBy
	}
	if d.Config != nil {
		config = d.Config.Ref.String() + " by " + d.Tier.String()
	}
	return fmt.Sprintf("%d; host %s; config %s", status, host, config)
}

// explained is the same of an explanation.
func explained(e *Explanation) string {
	host, config := "-", "-"
	if e.Host != "" {
		host = e.Host + " by " + e.FoundBy
	}
	if e.Winner != nil {
		config = e.Winner.Config + " by " + e.Winner.Tier
	}
	return fmt.Sprintf("%d; host %s; config %s", e.Status, host, config)
}

// item is a stored value.
func item(key, value string) kvstore.Item {
	return kvstore.Item{Key: key, Revision: 2, Value: []byte(value)}
}
