package api

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/rbac"
	"glowplug/internal/testkit"
)

const (
	othersHosts = "/api/v1/namespaces/g09/baremetalhosts"
	victimMAC   = "52:54:00:00:00:20"
)

// startExplaining returns an API that explains hosts: g10/x, which receives g09/theirs by default, g09/victim, whose
// hardware address the machine of x has, g10/y, and g10/twin with the address of the victim. vic is a viewer of g10,
// and vera of all namespaces.
func startExplaining(t *testing.T) *api {
	t.Helper()
	x, y := host("x"), host("y")
	x.Spec.BootMACAddress, y.Spec.IP = "", "192.168.10.30"
	a := start(t, func(opts *Options) {
		mac, _ := netaddr.ParseMAC(victimMAC)
		decider := decide.New(decide.Options{Inventory: opts.Inventory})
		opts.ExplainHost = func(r *http.Request, in *explain.Inquiry) (*explain.Explanation, *fault.Error) {
			in.At, in.Gone = time.Now(), r.Context().Done()
			in.Locate = func(addr netip.Addr) identity.Caller {
				if addr.String() == x.Spec.IP {
					return identity.Caller{Addr: addr, MAC: mac}
				}
				return identity.Caller{Addr: addr}
			}
			return explain.Inquire(decider, in)
		}
	})
	a.bindIn(rbac.View, "vic")
	a.bind(rbac.View, "vera")
	theirs := over("theirs", "x", "base")
	theirs.Spec.Selector.Default = true
	for _, c := range []*v1.IgnitionConfig{theirs, config("base", goodSource), config("other", goodSource)} {
		a.must(http.StatusCreated, "POST", strings.Replace(configs, "g10", "g09", 1), c)
	}
	a.must(http.StatusCreated, "POST", configs, config("mine", goodSource))
	victim := host("victim")
	victim.Spec = v1.BareMetalHostSpec{IP: "192.168.10.20", BootMACAddress: victimMAC}
	a.must(http.StatusCreated, "POST", othersHosts, victim)
	a.must(http.StatusCreated, "POST", hosts, y)
	twin := host("twin")
	twin.Spec = v1.BareMetalHostSpec{IP: victim.Spec.IP, BootMACAddress: "52:54:00:00:00:99"}
	a.must(http.StatusCreated, "POST", hosts, twin)
	a.must(http.StatusCreated, "POST", hosts, x)
	testkit.Until(t, "the inventory has the hosts", func() bool {
		return a.server.opts.Inventory.View().Host(model.Ref{Namespace: "g10", Name: "x"}) != nil
	})
	return a
}

// explained returns the explanation of a host in g10.
func (a *api) explained(host string, header ...string) (*explain.Explanation, string) {
	a.t.Helper()
	body := a.must(http.StatusOK, "GET", hosts+"/"+host, nil, header...).body
	e := &explain.Explanation{}
	if err := json.Unmarshal(body, e); err != nil {
		a.t.Fatal(err)
	}
	return e, string(body)
}

// TestExplanationOfAHostHidesOthers: a user of one namespace learns why his host receives what it does, and of the
// objects of other namespaces their number alone.
func TestExplanationOfAHostHidesOthers(t *testing.T) {
	a := startExplaining(t)
	for _, query := range []string{"", "?as=believed", "?endpoint=kickstart", "?accept=*/*&user-agent=curl", "?spec=3.2.0&arch=x86_64"} {
		e, body := a.explained("x/explain"+query, as("vic")...)
		if e.Named != "g10/x" || e.Hidden != 3 || len(e.Candidates) != 1 || e.Candidates[0].Config != "g10/mine" {
			t.Errorf("%s: %s", query, body)
		}
		for _, name := range []string{"g09/victim", "g09/base", "g09/other"} {
			if strings.Contains(body, name) {
				t.Errorf("%s names %s: %s", query, name, body)
			}
		}
		if full, _ := a.explained("x/explain"+query, as("vera")...); full.Hidden != 0 || len(full.Candidates) != 4 {
			t.Errorf("%s: a viewer of all namespaces reads %+v", query, full)
		}
	}
	e, body := a.explained("x/explain", as("vic")...)
	if e.Winner == nil || e.Winner.Config != "g09/theirs" || len(e.Notices) != 1 ||
		!strings.Contains(e.Notices[0].Message, "and host "+explain.Elsewhere+" has its hardware address") {
		t.Errorf("%s", body)
	}
	_, full := a.explained("x/explain", as("vera")...)
	for _, name := range []string{"g09/victim", "g09/base", "g09/other"} {
		if !strings.Contains(full, name) {
			t.Errorf("nothing to hide: no %s in %s", name, full)
		}
	}
}

// TestEditorsExplainTheirHosts: an editor of one namespace, which is an island, explains his hosts and no others.
func TestEditorsExplainTheirHosts(t *testing.T) {
	a := startExplaining(t)
	a.bindIn(rbac.Edit, "ann")
	testkit.Until(t, "the namespace is an island", func() bool { return a.server.opts.Inventory.View().Islands().Has("g10") })
	e, body := a.explained("y/explain", as("ann")...)
	if e.Hidden != 3 || e.Status != http.StatusNotFound || strings.Contains(body, "g09/") {
		t.Errorf("%s", body)
	}
	for path, code := range map[string]int{
		othersHosts + "/victim/explain": 403, hosts + "/none/explain": 404, othersHosts + "/none/explain": 403,
		explainPath + "?host=g10/y": 403, hosts + "/y/explain?as=admin": 400, hosts + "/y/explain?spec=x": 400,
		hosts + "/y/explain?%6dac=52:54:00:00:00:01": 400, hosts + "/y/explain?a;mac=1": 400,
	} {
		a.must(code, "GET", path, nil, as("ann")...)
	}
	for _, key := range []string{"mac", "ip", "hostname", "uuid", "role", "from", "host", "namespace", "token"} {
		refused := a.must(http.StatusBadRequest, "GET", hosts+"/y/explain?"+key+"="+url.QueryEscape("x"), nil, as("ann")...)
		if want := `the parameter "` + key + `" is not for the explanation of a host`; !strings.Contains(
			refused.status(t).Message, want) {
			t.Errorf("%s: %s", key, refused.body)
		}
	}
	a.must(http.StatusForbidden, "GET", hosts+"/y/explain", nil, as("eve")...)
	a.must(http.StatusMethodNotAllowed, "POST", hosts+"/y/explain", "{}")
}

// TestNoHostBorrowsTheExplanationOfAnother: a host with the address of one in another namespace is not explained as
// that one.
func TestNoHostBorrowsTheExplanationOfAnother(t *testing.T) {
	a := startExplaining(t)
	refused := a.must(http.StatusForbidden, "GET", hosts+"/twin/explain", nil, as("vic")...)
	if text := refused.status(t).Message; !strings.Contains(text, "recognised as another host") ||
		strings.Contains(text, "g09") || strings.Contains(text, "victim") {
		t.Error(text)
	}
	a.must(http.StatusOK, "GET", hosts+"/twin/explain", nil, as("vera")...)
}
