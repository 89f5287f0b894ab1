package decide

import (
	"net/netip"
	"slices"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
)

// TestUnheld has which claims of a request do not hold, and what their source may
// still claim once it has made too many of them.
func TestUnheld(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy Policy
		ask    ask
		want   Unheld
		// limited is the status once the source is limited; 0: as before.
		limited int
	}{
		{name: "no claims", ask: ask{From: "192.168.10.10"}},
		{name: "claims that hold", ask: ask{From: "192.168.10.10", MAC: macA, UUID: uuidA, Hostname: "builder1",
			IP: "192.168.10.10", Role: "builder"}},
		{name: "claims that the neighbour table bears out", ask: ask{From: "192.168.66.6", Neighbor: macD, MAC: macD,
			Role: "builder"}},
		{name: "a claim of another host", ask: ask{From: "192.168.10.10", MAC: macB}, want: Unheld{Refused: true},
			limited: 503},
		{name: "a stranger's claim of a host", ask: ask{From: "192.168.66.6", MAC: macB}, want: Unheld{Refused: true},
			limited: 503},
		{name: "a stranger's claim of nobody", ask: ask{From: "192.168.66.6", MAC: macX, Hostname: "nobody"},
			want: Unheld{Ignored: []string{"mac " + macX, "hostname nobody"}}, limited: 503},
		{name: "a stranger's own claims", ask: ask{From: "192.168.66.6", IP: "192.168.66.6", Neighbor: macX, MAC: macX},
			limited: 503},
		{name: "another address", ask: ask{From: "192.168.66.6", IP: "192.168.66.7"}, want: Unheld{Refused: true},
			limited: 503},
		{name: "a stranger's role", ask: ask{From: "192.168.66.6", Role: "builder"}, want: Unheld{Refused: true},
			limited: 503},
		{name: "another role", ask: ask{From: "192.168.10.10", Role: "server"}, want: Unheld{Refused: true}, limited: 503},
		{name: "a host's claim of nobody", ask: ask{From: "192.168.10.10", MAC: macA, UUID: uuidX},
			want: Unheld{Ignored: []string{"uuid " + uuidX}, Known: true}, limited: 503},
		{name: "a claim from behind NAT", ask: ask{From: "172.16.0.9", MAC: macC}, limited: 503},
		{name: "a claim of nobody from behind NAT", ask: ask{From: "172.16.0.9", MAC: macC, UUID: uuidX},
			want: Unheld{Ignored: []string{"uuid " + uuidX}, Known: true, Beside: "mac " + macC}, limited: 503},
		{name: "trusted claims", policy: trust, ask: ask{From: "192.168.66.6", MAC: macB, Hostname: "nobody"}},
		{name: "claims that are not looked at", policy: deny, ask: ask{From: "192.168.66.6", MAC: macB, Hostname: "nobody"}},
		{name: "a believed caller", ask: ask{From: "192.168.66.6", Believed: true, MAC: macB, Hostname: "nobody"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inv := storyAnd(func(l *lab) { l.Config("g10", "fallback", "ignition", sel{Default: true}) })().Inventory(t)
			d := New(Options{Inventory: inv, Policy: c.policy})
			req := c.ask.Request(t)
			dec := d.Config(req)
			u := dec.Unheld
			if u.Refused != c.want.Refused || u.Known != c.want.Known || u.Beside != c.want.Beside || !slices.Equal(u.Ignored,
				c.want.Ignored) {
				t.Errorf("%+v\nwant %+v", u, c.want)
			}
			if b := d.Boot(req); b.Unheld.Any() != c.want.Any() {
				t.Errorf("of what it boots: %+v", b.Unheld)
			}
			if i := d.Image(req, model.Ref{}, false); i.Unheld.Any() != c.want.Any() && c.ask.Role == "" {
				t.Errorf("of an image: %+v", i.Unheld)
			}
			req.ClaimLimit = StrangersLimited
			next := d.Config(req)
			if own := networkHost(d, req); (own == nil && c.limited != 0) != (next.Err == ClaimsLimited) {
				t.Errorf("in a network that is limited: %s", outcome(&next))
			}
			req.ClaimLimit = AllLimited
			then := d.Config(req)
			switch {
			case c.limited != 0 && (then.Err != ClaimsLimited || then.Host != nil || then.Unheld.Any() || len(then.Notices) > 0):
				t.Errorf("limited: %s, %+v, %v", outcome(&then), then.Unheld, then.Err)
			case c.limited == 0 && outcome(&then) != outcome(&dec):
				t.Errorf("limited: %s; was %s", outcome(&then), outcome(&dec))
			}
		})
	}
}

// TestWithheldImages has what a source may read that has asked for too many images.
func TestWithheldImages(t *testing.T) {
	l := story()
	for _, name := range []string{"own", "other"} {
		l.Image("g10", name, "")
		i := l.Images[len(l.Images)-1]
		i.Status.Phase, i.Status.TargetIQN = v1.PhaseReady, "iqn.2026-11.dev.glowplug:g10:"+name
	}
	l.Hosts[0].Spec.Image = "own"
	d := New(Options{Inventory: l.Inventory(t)})
	for _, c := range []struct {
		from, image string
		before      int
		missed      bool
		network     int // once the strangers in its network are limited
		limited     int
	}{
		{"192.168.10.10", "own", 200, false, 200, 200},
		{"192.168.10.10", "other", 200, false, 200, 503},
		{"192.168.10.10", "none", 404, true, 404, 503},
		{"192.168.66.6", "own", 200, false, 503, 503},
		{"192.168.66.6", "none", 404, true, 503, 503},
	} {
		req := &Request{Type: IPXE, Caller: identity.Caller{Addr: netip.MustParseAddr(c.from)}}
		for limit, want := range []int{Unlimited: c.before, StrangersLimited: c.network, AllLimited: c.limited} {
			req.ImageLimit = Limit(limit)
			for by, i := range map[string]ImageDecision{
				"name": d.Image(req, model.Ref{Namespace: "g10", Name: c.image}, false),
				"IQN":  d.Target(req, "iqn.2026-11.dev.glowplug:g10:"+c.image),
			} {
				status := 200
				if i.Err != nil {
					status = i.Err.Kind.Status()
				}
				if status != want || i.Missed != (c.missed && want == c.before) || (status == 503) != (i.Err == ImagesLimited) {
					t.Errorf("%s asks for %s by its %s, limit %d: %d, missed %v; want %d", c.from, c.image, by, limit, status,
						i.Missed, want)
				}
			}
		}
	}
}

// networkHost is the host that the network says asks.
func networkHost(d *Decider, req *Request) *model.Host {
	view := d.opts.Inventory.View()
	q := newQuestion(d, view, req)
	own, _ := q.ownHost()
	return own
}
