package impact_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/impact"
	"glowplug/internal/domain/impact/impacttest"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/rendering"
	"glowplug/internal/store/secrets"
	"glowplug/internal/store/snapshot"
)

// world is all objects of a server, by namespace and name.
type world struct {
	hosts      map[string]*v1.BareMetalHost
	configs    map[string]*v1.IgnitionConfig
	images     map[string]*v1.ISCSICdrom
	namespaces map[string]*v1.Namespace
	// secrets are not changed once they are written: both sides of a change have theirs.
	secrets map[types.NamespacedName]*v1.Secret
}

func newWorld() *world {
	return &world{map[string]*v1.BareMetalHost{}, map[string]*v1.IgnitionConfig{}, map[string]*v1.ISCSICdrom{},
		map[string]*v1.Namespace{}, map[types.NamespacedName]*v1.Secret{}}
}

// vault returns the Secrets of the world as they are now.
func (w *world) vault() secrets.View { return secrets.New(nil).With(maps.Clone(w.secrets)) }

const (
	worldHosts   = 9
	worldConfigs = 8
	worldImages  = 3
	worldSecrets = 2
)

// author writes random objects.
type author struct{ *rand.Rand }

func (a author) chance(percent int) bool { return a.IntN(100) < percent }

func pick[T any](a author, of ...T) T { return of[a.IntN(len(of))] }

func (a author) namespace() string { return pick(a, "a", "a", "b") }

// meta is the metadata of an object, whose UID and age stay the same.
func (a author) meta(key string, before metav1.Object) metav1.ObjectMeta {
	namespace, name, _ := strings.Cut(key, "/")
	meta := metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(key + strconv.Itoa(a.IntN(1e9))), Generation: 1,
		CreationTimestamp: metav1.NewTime(time.Unix(int64(1000+a.IntN(4)), 0)),
	}
	if before != nil {
		meta.UID, meta.CreationTimestamp = before.GetUID(), before.GetCreationTimestamp()
		meta.Generation = before.GetGeneration() + 1
	}
	return meta
}

func (a author) host(key string, before *v1.BareMetalHost) *v1.BareMetalHost {
	n := int(key[len(key)-1] - '0')
	h := &v1.BareMetalHost{}
	if before != nil {
		h.ObjectMeta = a.meta(key, before)
	} else {
		h.ObjectMeta = a.meta(key, nil)
	}
	h.Spec.IP = fmt.Sprintf("10.0.0.%d", n+1)
	if a.chance(10) { // shared with another host
		h.Spec.IP = fmt.Sprintf("10.0.0.%d", 1+a.IntN(worldHosts))
	}
	h.Spec.BootMACAddress = fmt.Sprintf("02:00:00:00:00:%02x", pick(a, n, n, n, a.IntN(worldHosts)))
	h.Spec.Labels = map[string]string{"role": pick(a, "x", "y", "z"), "rack": pick(a, "1", "2")}
	if a.chance(50) {
		h.Spec.Image = fmt.Sprintf("a/i%d", a.IntN(worldImages+1))
	}
	if a.chance(20) {
		h.Spec.BootMode = v1.BootForever
	}
	if a.chance(20) {
		h.Spec.KernelArgs = []string{"k=" + pick(a, "1", "2")}
	}
	if a.chance(10) {
		h.Spec.IPXE = "#!ipxe\necho " + pick(a, "1", "2")
	}
	h.Status.State = pick(a, "", v1.StateAvailable, v1.StateProvisioned)
	if before != nil {
		h.Status = before.Status
	}
	return h
}

// contents are configs that differ in the versions that they can be given in.
var contents = []string{
	`{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/a","contents":{"source":"data:,%d"}}]}}`,
	`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc/b","contents":{"source":"data:,%d"}}]}}`,
	`{"ignition":{"version":"3.4.0"},"kernelArguments":{"shouldExist":["n=%d"]}}`,
}

func (a author) config(key string, before *v1.IgnitionConfig) *v1.IgnitionConfig {
	c := &v1.IgnitionConfig{}
	if before != nil {
		c.ObjectMeta = a.meta(key, before)
	} else {
		c.ObjectMeta = a.meta(key, nil)
	}
	c.Spec.Type, c.Spec.Format = v1.TypeIgnition, v1.TypeIgnition
	if a.chance(25) {
		c.Spec.Type, c.Spec.Format = v1.TypeKickstart, v1.TypeKickstart
	}
	s := &c.Spec.Selector
	switch a.IntN(7) {
	case 0:
		s.MatchLabels = map[string]string{"role": pick(a, "x", "y", "z")}
	case 1:
		s.MatchLabels = map[string]string{"rack": pick(a, "1", "2")}
	case 2:
		s.MatchMACs = []string{fmt.Sprintf("02:00:00:00:00:%02x", a.IntN(worldHosts))}
	case 3:
		s.MatchIPs = []string{pick(a, "10.0.0.0/30", "10.0.0.4/31", "10.0.0.7")}
	case 4:
		s.Default = true
	case 5:
		s.MatchHostnames = []string{fmt.Sprintf("h%d", a.IntN(worldHosts))}
	}
	if a.chance(10) {
		c.Labels = map[string]string{"role": "x"}
	}
	a.compile(c, before)
	return c
}

// compile sets what the compilation of a new source would set.
func (a author) compile(c, before *v1.IgnitionConfig) {
	text := fmt.Sprintf(pick(a, contents...), a.IntN(3))
	isTemplate := a.chance(30)
	switch {
	case c.Spec.Type == v1.TypeKickstart:
		text = fmt.Sprintf("text\nreboot # %d\n", a.IntN(3))
	case isTemplate && a.chance(25):
		text = `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"{{ .Labels.role }}"}]}}` // not absolute
	case isTemplate && a.chance(20):
		text = fmt.Sprintf(`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/{{ .Labels.role }}",`+
			`"contents":{"source":"{{ .Server }}/%d"}}]}}`, a.IntN(3))
	case isTemplate && a.chance(60):
		text = `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc/{{ secret ` + pick(a, ofSecrets...) +
			` }}"}]}}`
	case isTemplate:
		text = fmt.Sprintf(`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/{{ .Labels.role }}",`+
			`"contents":{"source":"data:,%d"}}]}}`, a.IntN(3))
	}
	c.Spec.Config, c.Spec.Template = text, isTemplate && c.Spec.Type == v1.TypeIgnition
	switch {
	case a.chance(10) && before != nil: // it does not compile
		c.Status.Phase, c.Status.ErrorMessage, c.Compiled = v1.PhaseError, "broken", before.Compiled
		if before.Spec.Type != c.Spec.Type {
			c.Compiled = nil
		}
	case a.chance(5):
		c.Status.Phase = v1.PhaseError
	default:
		c.Status.Phase = v1.PhaseReady
		c.Compiled = &v1.Compiled{Artifact: []byte(text), Hash: hashOf([]byte(text)), Generation: c.Generation,
			Template: c.Spec.Template}
		if c.Spec.Template {
			c.Compiled.Format = c.Spec.Format
		} else if c.Spec.Type == v1.TypeIgnition {
			c.Compiled.IgnitionVersion = text[strings.Index(text, "3."):][:5]
		}
	}
}

// ofSecrets are what templates name: of one Secret and key, or of those that the host says.
var ofSecrets = []string{`"s0" "key"`, `"s1" "key"`, `(printf "s%s" (get .Labels "rack" | default "0")) "other"`}

// changeSecret writes or deletes a Secret. One of the values makes a config invalid.
func (a author) changeSecret(w *world, changed map[model.Ref]bool) {
	at := types.NamespacedName{Namespace: "a", Name: fmt.Sprintf("s%d", a.IntN(worldSecrets))}
	changed[model.Ref(at)] = true
	if a.chance(25) {
		w.secrets[at] = nil
		return
	}
	w.secrets[at] = &v1.Secret{Data: map[string][]byte{
		pick(a, "key", "key", "key", "none"): []byte(pick(a, "1", "2", "2", `"`)), "other": []byte(pick(a, "1", "2")),
		v1.SecretUsername: []byte("rack"), v1.SecretPassword: []byte(pick(a, "long-enough-1", "long-enough-2")),
	}}
}

func (a author) image(key string, before *v1.ISCSICdrom) *v1.ISCSICdrom {
	i := &v1.ISCSICdrom{}
	if before != nil {
		i.ObjectMeta = a.meta(key, before)
	} else {
		i.ObjectMeta = a.meta(key, nil)
	}
	if a.chance(60) {
		i.Spec.IgnitionConfig = fmt.Sprintf("a/c%d", a.IntN(worldConfigs))
	}
	if a.chance(40) {
		i.Spec.CHAP = &v1.CHAP{SecretName: fmt.Sprintf("s%d", a.IntN(worldSecrets))}
	}
	i.Status.Phase = pick(a, v1.PhaseReady, v1.PhaseReady, v1.PhaseError)
	if i.Status.Phase == v1.PhaseError {
		i.Status.ErrorMessage = "no file"
	}
	i.Status.MaxIgnition = pick(a, "", "3.2.0", "3.4.0", "2.2.0")
	return i
}

func (a author) space(name string) *v1.Namespace {
	n := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	if a.chance(50) {
		n.Annotations[v1.AnnotationIPXE] = "#!ipxe\necho of " + pick(a, "1", "2")
	}
	if a.chance(20) {
		n.Annotations[v1.AnnotationIsland] = pick(a, "true", "false")
	}
	return n
}

// change changes an object of the world, which may be a new one, or deletes one.
func (a author) change(w *world, changes *model.Changes, changed map[model.Ref]bool) {
	gone := a.chance(25)
	switch a.IntN(12) {
	case 0, 1, 2:
		set(w.hosts, changes.Hosts, a.namespace()+"/h"+strconv.Itoa(a.IntN(worldHosts)), gone, a.host, model.HostFrom)
	case 3, 4, 5, 6:
		set(w.configs, changes.Configs, a.namespace()+"/c"+strconv.Itoa(a.IntN(worldConfigs)), gone, a.config,
			model.ConfigFrom)
	case 7, 8:
		set(w.images, changes.Images, "a/i"+strconv.Itoa(a.IntN(worldImages)), gone, a.image, model.ImageFrom)
	case 9, 10:
		a.changeSecret(w, changed)
	default:
		n := a.space(a.namespace())
		w.namespaces[n.Name], changes.Namespaces[n.Name] = n, model.NamespaceFrom(n)
	}
}

func set[T, S any](objects map[string]*T, changes map[model.Ref]*S, key string, gone bool,
	write func(string, *T) *T, from func(*T) *S) {
	namespace, name, _ := strings.Cut(key, "/")
	ref := model.Ref{Namespace: namespace, Name: name}
	if gone {
		delete(objects, key)
		changes[ref] = nil
		return
	}
	object := write(key, objects[key])
	objects[key], changes[ref] = object, from(object)
}

func newChanges() *model.Changes {
	return &model.Changes{
		Hosts: map[model.Ref]*model.Host{}, Configs: map[model.Ref]*model.Config{},
		Images: map[model.Ref]*model.Image{}, Namespaces: map[string]*model.Namespace{},
	}
}

// load stores the world in place of what an inventory has, as the buckets of a store have it.
func (w *world) load(t testing.TB, inv *snapshot.Inventory) {
	t.Helper()
	var hosts, configs, images, namespaces []kvstore.Item
	for _, key := range sorted(w.hosts) {
		hosts = append(hosts, item(t, key, w.hosts[key]))
	}
	for _, key := range sorted(w.configs) {
		configs = append(configs, item(t, key, struct {
			*v1.IgnitionConfig
			Compiled *v1.Compiled `json:"compiled,omitempty"`
		}{w.configs[key], w.configs[key].Compiled}))
	}
	for _, key := range sorted(w.images) {
		images = append(images, item(t, key, w.images[key]))
	}
	for _, key := range sorted(w.namespaces) {
		namespaces = append(namespaces, item(t, key, w.namespaces[key]))
	}
	inv.Namespaces().Load(namespaces)
	inv.Images().Load(images)
	inv.Configs().Load(configs)
	inv.Hosts().Load(hosts)
	if s := inv.Stats(); s.Hosts.Bad+s.Configs.Bad+s.Images.Bad > 0 {
		t.Fatalf("an object of the test cannot be read: %+v", s)
	}
}

func sorted[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func item(t testing.TB, key string, object any) kvstore.Item {
	t.Helper()
	value, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return kvstore.Item{Key: key, Revision: 1, Value: value}
}

// ask asks as the machine of each host does: from its address, with the headers of the Ignition in
// its image.
func ask(d *decide.Decider, view model.View, vault secrets.View) map[model.Ref]impacttest.Observed {
	all := map[model.Ref]impacttest.Observed{}
	for _, h := range view.Hosts() {
		caller := identity.Caller{Addr: h.IPs[0]}
		o := impacttest.Observed{
			Exists: true, Shares: len(view.Conflicts(h)) > 0, Address: fmt.Sprint(h.MACs, h.IPs, h.Hostnames),
		}
		for i, typ := range []string{decide.Ignition, decide.Kickstart} {
			req := &decide.Request{Type: typ, Caller: caller, Reveal: true}
			if typ == decide.Ignition {
				machine := view.HostByIP(h.IPs[0])
				newest := ignition.Newest
				if image := view.Image(machine.Image); image != nil && image.MaxIgnition != "" {
					newest = image.MaxIgnition
				}
				req.Accept = ignition.AcceptOf(newest)
			}
			decision := d.Config(req)
			c := &o.Configs[i]
			c.Status, c.Tied = http.StatusOK, isTied(explain.Explain(d, req), typ)
			if decision.Config != nil {
				c.Name = decision.Config.Ref.String()
			}
			switch {
			case decision.Err != nil:
				c.Status = decision.Err.Kind.Status()
			case decision.Form != nil:
				c.Body, c.Stale = string(decision.Form.Bytes), decision.Config.Stale
			default:
				c.Body, c.Stale = string(decision.Config.Artifact), decision.Config.Stale
			}
		}
		boot := d.Boot(&decide.Request{Type: decide.IPXE, Caller: caller})
		switch o.BootFails = boot.Err != nil; {
		case o.BootFails:
			o.Boot = "an error"
		case boot.Image != nil:
			o.Boot = fmt.Sprint(boot.Script, boot.Image.Ref, boot.Image.Generation, boot.Host.Booting().KernelArgs)
			addLogin(&o, boot.Image, vault)
		default:
			o.Boot = fmt.Sprint(boot.Local, boot.Script)
		}
		all[h.Ref] = o
	}
	return all
}

// addLogin adds the credentials that the boot script has.
func addLogin(o *impacttest.Observed, image *model.Image, vault secrets.View) {
	if image.CHAP == nil {
		return
	}
	chap, err := vault.CHAP(image.Namespace, image.CHAP)
	if err != nil {
		o.Boot, o.BootFails = "an error", true
		return
	}
	o.Boot += fmt.Sprint(chap)
}

// isTied reports whether only age decides between the config of a type that wins and the next one.
func isTied(e *explain.Explanation, typ string) bool {
	return slices.ContainsFunc(e.Candidates, func(c explain.Candidate) bool {
		return c.Type == typ && c.Outcome == explain.OutcomeLost && strings.Contains(c.Reason, " wins: a tie")
	})
}

// predicted are the effects on each host.
func predicted(result *impact.Impact) map[model.Ref][]impact.Effect {
	all := map[model.Ref][]impact.Effect{}
	for i := range result.Groups {
		for _, ref := range result.Groups[i].Refs() {
			effects := slices.Clone(result.Groups[i].Effects)
			slices.Sort(effects)
			all[ref] = effects
		}
	}
	return all
}

// sets returns the number of random change sets, and the seed of the first.
func sets(t testing.TB, usual int) (n int, seed uint64) {
	t.Helper()
	n = usual
	if text := os.Getenv("IMPACT_SETS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("IMPACT_SEED"); text != "" {
		first, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n, first
	}
	return n, uint64(time.Now().UnixNano()) % 1_000_000
}

// TestImpactIsWhatHostsAreAnswered predicts the impact of 1,000 random change sets, makes the
// changes, asks as every host before and after, and compares.
func TestImpactIsWhatHostsAreAnswered(t *testing.T) {
	n, seed := sets(t, 1000)
	counts := map[impact.Effect]int{}
	for i := range uint64(n) {
		a := author{rand.New(rand.NewPCG(1, seed+i))}
		w := newWorld()
		for range 30 {
			a.change(w, newChanges(), map[model.Ref]bool{})
		}
		inv := snapshot.New(snapshot.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		w.load(t, inv)
		value := func(namespace, name, key string) (string, error) { return w.vault().Value(namespace, name, key) }
		renderer := rendering.New(rendering.Options{Inventory: inv, Secret: value, Server: "http://10.0.0.1:8082"})
		d := decide.New(decide.Options{Inventory: inv, Renderer: renderer})
		view := inv.View()
		before := ask(d, view, w.vault())
		values := &impact.Secrets{Before: w.vault(), Changed: map[model.Ref]bool{}}
		changes := newChanges()
		for range 1 + a.IntN(3) {
			a.change(w, changes, values.Changed)
		}
		values.After = w.vault()
		result, err := impact.New(t.Context(),
			impact.Options{Decider: d, Before: view, Changes: changes, Secrets: values})
		if err != nil {
			t.Fatal(err)
		}
		w.load(t, inv)
		after := ask(d, inv.View(), w.vault())
		renderer.Close()
		got := predicted(result)
		both := maps.Clone(before)
		maps.Copy(both, after)
		for ref := range both {
			want := impacttest.Effects(before[ref], after[ref])
			if !slices.Equal(got[ref], want) {
				t.Errorf("IMPACT_SETS=1 IMPACT_SEED=%d: host %s: predicted %v, observed %v\nbefore %+v\nafter  %+v", seed+i, ref,
					got[ref], want, before[ref], after[ref])
			}
			for _, e := range want {
				counts[e]++
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d change sets, first seed %d, hosts by effect: %v", n, seed, counts)
	for _, e := range []impact.Effect{
		impact.Unmatched, impact.Unserved, impact.Unreadable, impact.Stale, impact.Unbootable, impact.ConfigChanged,
		impact.ContentChanged, impact.BootChanged, impact.AddressChanged, impact.Mended, impact.HostAdded,
		impact.HostDeleted, impact.Ambiguous,
	} {
		if n >= 500 && counts[e] == 0 {
			t.Errorf("no change set has the effect %s: the test does not cover it", e)
		}
	}
}

func hashOf(text []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(text)) }
