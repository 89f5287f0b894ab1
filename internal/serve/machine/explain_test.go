package machine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/serve/peer"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
)

// machineOf is a machine of explainLab, as it sends its requests.
type machineOf struct{ address, mac string }

// explainHosts are hosts that are recognised in every way, and explainMachines the machines
// that they describe.
var (
	explainHosts = map[string]string{
		"g10/node":  `{"spec":{"ip":"10.0.0.1","bootMACAddress":"52:54:00:00:00:01","labels":{"role":"worker"}}}`,
		"g10/cards": `{"spec":{"hostname":"cards.lab","nics":[{"mac":"52:54:00:00:00:02","ip":"10.0.0.2"}]}}`,
		"g10/mac":   `{"spec":{"bootMACAddress":"52:54:00:00:00:03","labels":{"role":"worker"}}}`,
		"g10/six":   `{"spec":{"ip":"2001:db8::4"}}`,
		"g10/ks":    `{"spec":{"ip":"10.0.0.5","labels":{"role":"server"}}}`,
		"g10/old":   `{"spec":{"ip":"10.0.0.6","image":"old","labels":{"role":"worker"}}}`,
		"g10/nat":   `{"spec":{"ip":"10.9.0.7","bootSources":["10.0.1.0/24"],"labels":{"role":"worker"}}}`,
		"g10/twin":  `{"spec":{"ip":"10.0.0.10"}}`,
		"g11/twin": `{"metadata":{"creationTimestamp":"2026-01-02T00:00:00Z"},
			"spec":{"ip":"10.0.0.8","bootMACAddress":"52:54:00:00:00:01"}}`,
		"g11/typo": `{"spec":{"ip":"10.0.0.9","bootMACAddress":"52:54:00:00:00:99"}}`,
	}
	explainMachines = map[string]machineOf{
		"g10/node": {"10.0.0.1", "52:54:00:00:00:01"}, "g10/cards": {"10.0.0.2", "52:54:00:00:00:02"},
		"g10/mac": {"10.0.0.77", "52:54:00:00:00:03"}, "g10/six": {"2001:db8::4", ""}, "g10/ks": {"10.0.0.5", ""},
		"g10/old": {"10.0.0.6", ""}, "g10/nat": {"10.9.0.7", ""}, "g11/twin": {"10.0.0.8", "52:54:00:00:00:01"},
		"g11/typo": {"10.0.0.9", "52:54:00:00:00:09"},
	}
)

// newExplainLab returns a server and its explain, which know the machines by the neighbour
// table, and two images, of which one reads Ignition spec 3.2.0 at most.
func newExplainLab(t *testing.T, policy decide.Policy, changes ...func(*snapshot.Inventory)) (
	serving, explainer http.Handler,
) {
	t.Helper()
	decider, resolver := explainRack(t, policy, changes...)
	serving = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		New(Options{Decider: decider, Resolver: resolver}).ServeHTTP(w, r) // which limits no guesses yet
	})
	return serving, Explain(decider, resolver, func() bool { return true }, false)
}

// explainRack is the decision of a lab, and what it knows the machines by.
func explainRack(t *testing.T, policy decide.Policy, changes ...func(*snapshot.Inventory)) (
	*decide.Decider, *peer.Resolver,
) {
	t.Helper()
	inv := snapshot.New(snapshot.Options{})
	load := func(o kvstore.Observer, objects map[string]string) {
		var items []kvstore.Item
		for key, value := range objects {
			items = append(items, kvstore.Item{Key: key, Revision: 1, Value: []byte(value)})
		}
		o.Load(items)
	}
	load(inv.Hosts(), explainHosts)
	load(inv.Images(), map[string]string{
		"g10/old": `{"spec":{},"status":{"phase":"Ready","servedRelease":"33.20201201.3.0","maxIgnition":"3.2.0"}}`,
	})
	body := []byte(`{"ignition":{"version":"3.4.0"}}`)
	configs := map[string]string{}
	for name, c := range map[string][2]string{
		"worker": {"ignition", `{"matchLabels":{"role":"worker"}}`}, "ks": {"kickstart", `{"matchLabels":{"role":"server"}}`},
		"foreign": {"ignition", `{"matchMACs":["02:00:00:00:00:99"]}`}, "cards": {"ignition", `{"matchHostnames":["cards"]}`},
		"worker-target": {"ignition", `{}`}, "six": {"kickstart", `{"matchIPs":["2001:db8::/64"]}`},
	} {
		configs["g10/"+name] = string(storedConfig(name, c[0], c[1], body))
	}
	load(inv.Configs(), configs)
	if s := inv.Stats(); s.Hosts.Bad+s.Images.Bad+s.Configs.Bad > 0 {
		t.Fatalf("%+v", s)
	}
	table := neighbours{}
	for _, m := range explainMachines {
		if m.mac != "" {
			mac, err := netaddr.ParseMAC(m.mac)
			if err != nil {
				t.Fatal(err)
			}
			table[m.address] = mac
		}
	}
	for _, change := range changes {
		change(inv)
	}
	decider := decide.New(decide.Options{Inventory: inv, Policy: policy})
	return decider, peer.NewResolver(peer.ResolverOptions{Table: table})
}

// get sends a request from an address.
func get(handler http.Handler, from, target, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.RemoteAddr = "127.0.0.1:40000"
	if from != "" {
		r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(from), 40000).String()
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// explained asks explain.
func explained(t *testing.T, explainer http.Handler, query string) *explain.Explanation {
	t.Helper()
	w := get(explainer, "", "/api/v1/explain?"+query, "")
	e := &explain.Explanation{}
	if err := json.Unmarshal(w.Body.Bytes(), e); w.Code != http.StatusOK || err != nil {
		t.Fatalf("explain %s: %d %s", query, w.Code, w.Body)
	}
	return e
}

// compare compares an explanation with the answer that the machine received.
func compare(t *testing.T, what string, e *explain.Explanation, served *httptest.ResponseRecorder) {
	t.Helper()
	config := ""
	if e.Winner != nil && e.Error == "" {
		config = e.Winner.Config
	}
	if e.Status != served.Code || config != served.Header().Get("X-Glowplug-Config") ||
		e.Error != "" && strings.TrimSpace(served.Body.String()) != e.Error {
		t.Errorf("%s: explained %d %q %s\nserved %d %q %s", what, e.Status, config, e.Error,
			served.Code, served.Header().Get("X-Glowplug-Config"), served.Body)
	}
}

var explainPolicies = map[string]decide.Policy{
	"verify": {}, "trust": {Claims: identity.Trust}, "deny": {Claims: identity.Deny}, "isolated": {},
	"enforce": {Neighbors: identity.NeighborsEnforce}, "off": {Neighbors: identity.NeighborsOff},
}

// TestExplainIsWhatTheMachineGets has explain give, for every host, address, claim, endpoint,
// header and policy, the status, the config and the text that the serving endpoint gives to
// a real request from that address.
func TestExplainIsWhatTheMachineGets(t *testing.T) {
	queries := []string{
		"", "mac=52:54:00:00:00:01", "mac=52:54:00:00:00:03", "mac=02:00:00:00:00:99", "hostname=cards.lab",
		"hostname=nobody&mac=02:00:00:00:00:99", "role=worker", "ip=10.0.0.1", "spec=3.2.0", "hostname=nat",
	}
	current, old := ignition.AcceptOf(ignition.Newest), ignition.AcceptOf("3.2.0")
	statuses := map[int]int{}
	for name, policy := range explainPolicies {
		var changes []func(*snapshot.Inventory)
		if name == "isolated" {
			changes = append(changes, isolate)
		}
		serving, explainer := newExplainLab(t, policy, changes...)
		addresses := []string{"10.0.1.5", "192.0.2.9"}
		for _, m := range explainMachines {
			addresses = append(addresses, m.address)
		}
		for _, from := range addresses {
			for _, query := range queries {
				for _, accept := range []string{current, old, "*/*"} {
					for _, endpoint := range []string{decide.Ignition, decide.Kickstart} {
						e := explained(t, explainer, query+"&from="+from+"&endpoint="+endpoint+"&accept="+url.QueryEscape(accept))
						served := get(serving, from, "/api/v1/"+endpoint+"?"+query, accept)
						compare(t, fmt.Sprint(name, " ", from, " ", endpoint, "?", query, " ", accept), e, served)
						statuses[e.Status]++
					}
				}
			}
		}
	}
	for _, status := range []int{200, 403, 404} {
		if statuses[status] < 100 {
			t.Errorf("status %d was met %d times only: the test proves little", status, statuses[status])
		}
	}
}

// TestExplainNamesTheHost has explain find, by the name of a host alone, the address, the
// neighbour entry and the headers with which its machine asks.
func TestExplainNamesTheHost(t *testing.T) {
	for name, policy := range explainPolicies {
		serving, explainer := newExplainLab(t, policy)
		for host, machine := range explainMachines {
			accept := ignition.AcceptOf(ignition.Newest)
			if host == "g10/old" {
				accept = ignition.AcceptOf("3.2.0")
			}
			e := explained(t, explainer, "host="+host)
			if e.Named != host || e.Client.Accept != accept {
				t.Errorf("%s %s: named %q, Accept %q", name, host, e.Named, e.Client.Accept)
			}
			served := get(serving, machine.address, PathIgnition, accept)
			compare(t, name+" "+host, e, served)
		}
	}
}

// TestExplainWithoutAMachine has explain answer as the sender, whose claims are verified.
func TestExplainWithoutAMachine(t *testing.T) {
	for name, policy := range explainPolicies {
		serving, explainer := newExplainLab(t, policy)
		for _, query := range []string{"", "role=worker", "spec=3.2.0"} {
			e := explained(t, explainer, query)
			compare(t, name+" "+query, e, get(serving, "127.0.0.1", PathIgnition+"?"+query, e.Client.Accept))
		}
	}
}

// TestExplainShowsOtherClients has explain say where a believed caller, curl and an
// installer receive another answer than the machine.
func TestExplainShowsOtherClients(t *testing.T) {
	_, explainer := newExplainLab(t, decide.Policy{})
	const believed = "a believed caller (kubectl get --raw, or curl at the admin listener) "
	for query, want := range map[string]string{
		"host=node":                          "",
		"ip=192.0.2.9&mac=52:54:00:00:00:01": believed + "200 g10/worker",
		"host=ks": "curl on the machine 200 g10/ks; an installer that asks for a kickstart 200 g10/ks; " +
			believed + "200 g10/ks",
		"host=ks&endpoint=kickstart":                "",
		"host=ks&as=believed":                       "the machine itself 404 ",
		"ip=192.0.2.9&mac=525400000001&as=believed": "the machine itself 403 ",
		"host=node&as=believed":                     "",
		"mac=02:00:00:00:00:99&from=192.0.2.9": "a believed caller with ip=192.0.2.9 (kubectl get --raw, or curl at the" +
			" admin listener) 200 g10/foreign",
		"host=node&from=192.0.2.77": "a believed caller with mac=52:54:00:00:00:01&ip=192.0.2.77 (kubectl get --raw, or" +
			" curl at the admin listener) 200 g10/worker",
		"host=node&endpoint=kickstart&accept=text/plain": "an Ignition on the machine 200 g10/worker",
	} {
		var got []string
		for _, o := range explained(t, explainer, query).Others {
			got = append(got, fmt.Sprint(o.Client, " ", o.Status, " ", o.Config))
		}
		if joined := strings.Join(got, "; "); joined != want {
			t.Errorf("%s: got  %s\nwant %s", query, joined, want)
		}
	}
}

// TestExplainHostNames has explain say which host is meant, or that it cannot be told.
func TestExplainHostNames(t *testing.T) {
	_, explainer := newExplainLab(t, decide.Policy{})
	for query, want := range map[string]string{
		"host=nobody":                "404 there is no BareMetalHost nobody in any namespace",
		"host=g11/node":              "404 there is no BareMetalHost g11/node; another namespace has one: g10/node",
		"host=node&namespace=g11":    "200",
		"host=twin":                  "400 the name twin is ambiguous; name one of g10/twin, g11/twin",
		"host=twin&namespace=g9":     "400 the name twin is ambiguous; name one of g10/twin, g11/twin",
		"host=twin&namespace=g11":    "200",
		"host=g10/nobody":            "404 there is no BareMetalHost g10/nobody",
		"endpoint=ipxe":              "400 the parameter endpoint is malformed: want ignition or kickstart",
		"as=admin":                   "400 the parameter as is malformed: want machine or believed",
		"from=10.0.0.0/8":            "400 the parameter from is malformed: want an IPv4 or IPv6 address",
		"mac=x":                      "400 the parameter mac is malformed: want six bytes such as ac:1f:6b:8a:a7:9c",
		"host=g10/node&namespace=g9": "200",
	} {
		w := get(explainer, "", "/api/v1/explain?"+query, "")
		if got := fmt.Sprint(w.Code, " ", w.Body); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
}
