package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/impact"
	"glowplug/internal/domain/impact/impacttest"
)

const (
	impactHosts   = 8
	impactConfigs = 9
	impactImages  = 2
)

// impactLab is a server, and the random objects on it.
type impactLab struct {
	*server
	*rand.Rand
	// stored are the objects by their path.
	stored map[string]map[string]any
	seed   uint64
	// ofTime are the hosts of a change set whose answer depends on the time of the writes.
	ofTime map[string]bool
}

func (l *impactLab) chance(percent int) bool { return l.IntN(100) < percent }

func oneOf[T any](l *impactLab, of ...T) T { return of[l.IntN(len(of))] }

func object(kind, namespace, name string, spec map[string]any) map[string]any {
	metadata := map[string]any{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	out := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": metadata}
	if spec != nil {
		out["spec"] = spec
	}
	return out
}

func objectPath(o map[string]any) string {
	meta := o["metadata"].(map[string]any)
	resource := strings.ToLower(o["kind"].(string)) + "s"
	if namespace, ok := meta["namespace"].(string); ok {
		return "/api/v1/namespaces/" + namespace + "/" + resource + "/" + meta["name"].(string)
	}
	return "/api/v1/" + resource + "/" + meta["name"].(string)
}

func (l *impactLab) host() map[string]any {
	n := l.IntN(impactHosts)
	spec := map[string]any{
		"ip":             fmt.Sprintf("127.1.0.%d", n+1),
		"bootMACAddress": fmt.Sprintf("02:00:00:00:00:%02x", n),
		"labels":         map[string]any{"role": oneOf(l, "x", "y", "z"), "rack": oneOf(l, "1", "2")},
	}
	if l.chance(50) {
		spec["image"] = oneOf(l, "a/i0", "a/i1", "a/missing", "localboot")
	}
	if l.chance(20) {
		spec["kernelArgs"] = []any{"k=" + oneOf(l, "1", "2")}
	}
	if l.chance(20) {
		spec["ipxe"] = "#!ipxe\necho own " + oneOf(l, "1", "2") + "\n"
	}
	// Each host is in one namespace: two with one address are a subject of the test of the prediction.
	return object("BareMetalHost", []string{"a", "a", "b"}[n%3], fmt.Sprintf("h%d", n), spec)
}

func butane(path, text string) string {
	return "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n" +
		fmt.Sprintf("  - path: %s\n    contents: {inline: %q}\n", path, text)
}

// ofSecret are values of the Secret, one of them of the key that the host says.
var ofSecret = []string{"{{ secret `s` `key` }}", "{{ secret `s` .Labels.rack }}"}

// secret is the random Secret of the templates.
func (l *impactLab) secret() map[string]any {
	o := object("Secret", "a", "s", nil)
	o["stringData"] = map[string]any{oneOf(l, "key", "other"): oneOf(l, "1", "2"), oneOf(l, "1", "2"): "x"}
	return o
}

// config is a random config. The first three are layers without a selector, mostly.
func (l *impactLab) config() map[string]any {
	n := l.IntN(impactConfigs)
	spec := map[string]any{"type": "ignition", "format": "butane",
		"config": butane(oneOf(l, "/etc/a", "/etc/b"), oneOf(l, "1", "2", "3"))}
	switch {
	case l.chance(15):
		spec = map[string]any{"type": "kickstart", "format": "kickstart",
			"config": "text\nreboot\n# " + oneOf(l, "1", "2", "3") + "\n"}
	case l.chance(25):
		spec["template"], spec["config"] = true, butane("/etc/{{ .Labels.role }}", oneOf(l, "1", "2"))
		switch {
		case l.chance(20):
			spec["config"] = butane("{{ .Labels.role }}", "1") // renders for no host
		case l.chance(40):
			spec["config"] = butane("/etc/c", oneOf(l, ofSecret...))
		}
	case l.chance(10):
		spec["config"] = "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n  - path: relative\n"
	}
	if spec["type"] == "ignition" && l.chance(40) {
		var layers []any
		for _, step := range l.Perm(impactConfigs - 1)[:1+l.IntN(2)] {
			other := (n + 1 + step) % impactConfigs // no config is a layer of itself
			layers = append(layers, map[string]any{"name": fmt.Sprintf("c%d", other)})
		}
		spec["layers"] = layers
	}
	if n >= 3 || l.chance(20) {
		spec["selector"] = oneOf(l,
			map[string]any{"matchLabels": map[string]any{"role": oneOf(l, "x", "y", "z")}},
			map[string]any{"matchLabels": map[string]any{"rack": oneOf(l, "1", "2")}},
			map[string]any{"matchMACs": []any{fmt.Sprintf("02:00:00:00:00:%02x", l.IntN(impactHosts))}},
			map[string]any{"matchIPs": []any{oneOf(l, "127.1.0.0/30", "127.1.0.4/31", "127.1.0.7")}},
			map[string]any{"matchHostnames": []any{fmt.Sprintf("h%d", l.IntN(impactHosts))}},
			map[string]any{"default": true})
	}
	return object("IgnitionConfig", "a", fmt.Sprintf("c%d", n), spec)
}

func (l *impactLab) image() map[string]any {
	iqn := "iqn.2026-01.example:" + oneOf(l, "one", "two")
	spec := map[string]any{"external": map[string]any{"portal": "192.0.2.1", "iqn": iqn}}
	if l.chance(60) {
		spec["ignitionConfig"] = fmt.Sprintf("a/c%d", l.IntN(impactConfigs))
	}
	return object("ISCSICdrom", "a", fmt.Sprintf("i%d", l.IntN(impactImages)), spec)
}

func (l *impactLab) namespace() map[string]any {
	o := object("Namespace", "", oneOf(l, "a", "b"), nil)
	o["metadata"].(map[string]any)["annotations"] = map[string]any{
		"glowplug.dev/ipxe": "#!ipxe\necho of the namespace " + oneOf(l, "1", "2") + "\n${glowplug-boot}\n",
	}
	return o
}

// changes returns a random change set.
func (l *impactLab) changes(n int) (apply, remove []map[string]any) {
	used := map[string]bool{}
	for range n {
		o := oneOf(l, l.host, l.host, l.config, l.config, l.config, l.config, l.image,
			l.namespace, l.secret)()
		path := objectPath(o)
		if used[path] {
			continue
		}
		used[path] = true
		if l.stored[path] != nil && o["kind"] != "Namespace" && l.chance(30) {
			remove = append(remove, o)
		} else {
			apply = append(apply, o)
		}
	}
	return apply, remove
}

// call sends a request to the API, and fails the test on an error.
func (l *impactLab) call(t *testing.T, method, path string, body any, into any, header ...string) {
	t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	got := request(t, method, l.admin(path), string(text), header...)
	if got.status >= 300 {
		t.Fatalf("seed %d: %s %s: %d %s\n%s", l.seed, method, path, got.status, got.body, text)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(got.body), into); err != nil {
			t.Fatal(err)
		}
	}
}

// write makes the changes, the layers first.
func (l *impactLab) write(t *testing.T, apply, remove []map[string]any) {
	t.Helper()
	for _, o := range apply {
		path := objectPath(o)
		l.call(t, http.MethodPatch, path+"?fieldManager=glowplug-apply&force=true", o, nil, "Content-Type",
			"application/apply-patch+yaml")
		l.stored[path] = o
	}
	for _, o := range remove {
		l.call(t, http.MethodDelete, objectPath(o), nil, nil)
		delete(l.stored, objectPath(o))
	}
}

var namedConfig = regexp.MustCompile(`config (a/c[0-9])`)

// ask asks for the machine of each host as an administrator and, with asMachine, as the machine.
func (l *impactLab) ask(t *testing.T, asMachine bool) map[string]impacttest.Observed {
	t.Helper()
	all := map[string]impacttest.Observed{}
	for path, o := range l.stored {
		if o["kind"] != "BareMetalHost" {
			continue
		}
		meta, spec := o["metadata"].(map[string]any), o["spec"].(map[string]any)
		addr := spec["ip"].(string)
		got := impacttest.Observed{Exists: true}
		for i, typ := range []string{"ignition", "kickstart"} {
			accept := ""
			if typ == "ignition" {
				accept = ignition.AcceptOf(ignition.Newest)
			}
			a := request(t, http.MethodGet, l.admin("/api/v1/"+typ+"?ip="+addr), "", "Accept", accept)
			c := impacttest.Config{Status: a.status, Stale: a.header.Get("X-Glowplug-Stale") == "true"}
			if a.status == http.StatusOK {
				c.Name, c.Body = a.header.Get("X-Glowplug-Config"), strings.Trim(a.header.Get("Etag"), `"`)
			} else if named := namedConfig.FindStringSubmatch(a.body); named != nil {
				c.Name = named[1]
			}
			if asMachine {
				l.asMachine(t, addr, "/api/v1/"+typ, accept, &a)
			}
			got.Configs[i] = c
		}
		boot := request(t, http.MethodGet, l.admin("/ipxe?ip="+addr), "")
		got.Boot, got.BootFails = boot.body, strings.HasSuffix(boot.body, "exit 1\n")
		switch {
		case strings.Contains(boot.body, " boots its disk: "):
			got.Boot = "its disk"
		case got.BootFails:
			got.Boot = "an error"
		default:
			image, _ := spec["image"].(string)
			if image := l.stored["/api/v1/namespaces/a/iscsicdroms/"+strings.TrimPrefix(image, "a/")]; image != nil {
				got.Boot += fmt.Sprint(image, spec["kernelArgs"])
			}
		}
		all[meta["namespace"].(string)+"/"+path[strings.LastIndex(path, "/")+1:]] = got
	}
	return all
}

// asMachine asks from the address of a machine, and compares the answer with that to a believed
// caller. HEAD is no step of a boot.
func (l *impactLab) asMachine(t *testing.T, addr, path, accept string, believed *answer) {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, l.url(path), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode != believed.status || resp.Header.Get("Etag") != believed.header.Get("Etag") {
		t.Errorf("seed %d: %s asks for %s: %d %s, and a believed caller: %d %s", l.seed, addr, path, resp.StatusCode,
			resp.Header.Get("Etag"), believed.status, believed.header.Get("Etag"))
	}
}

// isOfTime reports whether a prediction and an observation differ by an earlier version that is
// served, or not, while the newest has an error: that depends on when the server merges and renders
// between the writes. becameStale is true where the server finished an earlier version between
// the last observation and the prediction.
func isOfTime(predicted, observed []impact.Effect, becameStale bool) bool {
	if !becameStale && !slices.Contains(predicted, impact.Stale) && !slices.Contains(observed, impact.Stale) {
		return false
	}
	others := func(effects []impact.Effect) []impact.Effect {
		return slices.DeleteFunc(slices.Clone(effects), func(e impact.Effect) bool {
			return slices.Contains([]impact.Effect{impact.Stale, impact.Mended, impact.Unserved, impact.ContentChanged}, e)
		})
	}
	return slices.Equal(others(predicted), others(observed))
}

// becameStale reports whether the prediction took an earlier version of a config for what a host of a
// group is served, where the last observation had found that it is not served to this host.
func becameStale(g impact.Group, before impacttest.Observed) (found bool) {
	for _, pair := range g.Answers {
		if pair.Before == nil {
			continue
		}
		for _, predicted := range pair.Before.Configs {
			wasUnserved := slices.ContainsFunc(before.Configs[:], func(observed impacttest.Config) bool {
				return observed.Name == predicted.Config && observed.Status != http.StatusOK
			})
			switch {
			case predicted.Status != http.StatusOK || !wasUnserved:
			case !predicted.Stale:
				return false // the answers of a group do not say which host each is for: it may be this one
			default:
				found = true
			}
		}
	}
	return found
}

// differences compares a prediction with what was observed.
func (l *impactLab) differences(predicted *impact.Report, before, after map[string]impacttest.Observed) (
	all []string) {
	l.ofTime = map[string]bool{}
	got, groups := map[string][]impact.Effect{}, map[string]impact.Group{}
	for _, g := range predicted.Groups {
		effects := slices.DeleteFunc(slices.Clone(g.Effects), func(e impact.Effect) bool {
			return e == impact.Ambiguous // ties are a subject of the test of the prediction
		})
		slices.Sort(effects)
		for _, name := range g.Names {
			got[name], groups[name] = effects, g
		}
	}
	both := maps.Clone(before)
	maps.Copy(both, after)
	for name := range both {
		want := impacttest.Effects(before[name], after[name])
		if slices.Equal(got[name], want) {
			continue
		}
		if isOfTime(got[name], want, becameStale(groups[name], before[name])) {
			l.ofTime[name] = true
		} else {
			all = append(all, fmt.Sprintf("host %s: predicted %v, observed %v\nbefore %+v\nafter  %+v", name, got[name], want,
				before[name], after[name]))
		}
	}
	return append(all, l.wrongBytes(predicted, after)...)
}

// wrongBytes compares the hashes of the answers that are named.
func (l *impactLab) wrongBytes(predicted *impact.Report, after map[string]impacttest.Observed) (all []string) {
	served := map[string]bool{}
	for _, o := range after {
		for _, c := range o.Configs {
			served[c.Name+" "+c.Body] = true
		}
	}
	for _, g := range predicted.Groups {
		for _, pair := range g.Answers {
			if pair.After == nil {
				continue
			}
			for _, c := range pair.After.Configs {
				// The hash of a config with the value of a Secret has a placeholder for it.
				hasSecret := strings.Contains(fmt.Sprint(l.stored["/api/v1/namespaces/a/ignitionconfigs/"+
					strings.TrimPrefix(c.Config, "a/")]), "{{ secret")
				if c.Status == http.StatusOK && !c.Stale && !hasSecret && !served[c.Config+" "+c.Hash] {
					all = append(all, fmt.Sprintf("no host is served %s with %s", c.Config, c.Hash))
				}
			}
		}
	}
	return all
}

// TestImpactIsTheTruth predicts the impact of 1,000 random change sets on a real server, applies
// them, asks as every host, and compares.
func TestImpactIsTheTruth(t *testing.T) {
	needs(t)
	n, seed := 1000, uint64(time.Now().UnixNano())%1_000_000
	if text := os.Getenv("IMPACT_SETS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	if text := os.Getenv("IMPACT_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	l := &impactLab{
		server: start(t, "--iscsi-listen", "127.0.0.1:"+freePort(t)), stored: map[string]map[string]any{},
		seed: seed, Rand: rand.New(rand.NewPCG(2, seed)),
	}
	apply, _ := l.changes(30)
	l.write(t, apply, nil)
	time.Sleep(time.Second) // for the layers and templates
	before := l.ask(t, true)
	counts := map[impact.Effect]int{}
	repeated, ofTime := 0, 0
	for i := 0; i < n; i++ {
		apply, remove := l.changes(1 + l.IntN(3))
		if into := time.Now().Nanosecond(); into > 700_000_000 { // the age of two new objects decides
			time.Sleep(time.Duration(1_000_000_000 - into))
		}
		began := time.Now().Unix()
		predicted := &impact.Report{}
		l.call(t, http.MethodPost, "/api/v1/impact", map[string]any{"apply": apply, "delete": remove}, predicted)
		l.write(t, apply, remove)
		crossed := time.Now().Unix() != began
		after := l.ask(t, false)
		found := l.differences(predicted, before, after)
		// The server follows a change of a layer or a host in the background.
		for tries := 0; len(found) > 0 && tries < 250 || len(l.ofTime) > 0 && tries < 25; tries++ {
			time.Sleep(20 * time.Millisecond)
			after = l.ask(t, false)
			found = l.differences(predicted, before, after)
		}
		if len(found) == 0 {
			after = l.ask(t, true)
			found = l.differences(predicted, before, after)
		}
		if len(found) > 0 && crossed {
			repeated++ // another order of the ages than was predicted
			i--
		} else if len(found) > 0 {
			sets, _ := json.Marshal(map[string]any{"apply": apply, "delete": remove})
			answer, _ := json.Marshal(predicted)
			configs := request(t, http.MethodGet, l.admin("/api/v1/namespaces/a/ignitionconfigs"), "").body
			t.Fatalf("IMPACT_SEED=%d, change set %d: %s\n%s\n%s\n%s", seed, i, strings.Join(found, "\n"), sets, answer, configs)
		}
		ofTime += len(l.ofTime)
		for e, hosts := range predicted.Counts {
			counts[e] += hosts
		}
		before = after
	}
	if repeated > n/10 {
		t.Errorf("%d change sets were written across a second", repeated)
	}
	if ofTime > n/20 {
		t.Errorf("the answers to %d hosts depend on the time of the writes", ofTime)
	}
	t.Logf("%d change sets, seed %d, hosts by effect: %v; %d change sets repeated, answers that depend on the time of "+
		"the writes: %d", n, seed, counts, repeated, ofTime)
}
