package decide

import (
	"slices"
	"strings"
	"testing"

	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
)

// TestBootSourceOfAnotherMachine is a machine on the server's own network that
// claims to be a host with bootSources, at every endpoint.
func TestBootSourceOfAnotherMachine(t *testing.T) {
	l := rack()
	l.Hosts[0].Spec.BootSources = []string{"172.16.0.0/24"}
	l.Hosts[0].Spec.SystemUUID = uuidA
	inv := l.Inventory(t)
	live := model.Ref{Namespace: "g10", Name: "live"}
	for name, policy := range map[string]Policy{"auto": {}, "enforce": enforce} {
		d := New(Options{Inventory: inv, Policy: policy})
		for _, c := range []struct {
			name string
			ask  ask
			want fault.Kind // Internal: none; NoMatch: it is no host, and nothing is refused
		}{
			{"another machine", ask{From: "172.16.0.66", Neighbor: macX, Hostname: "h1"}, fault.Refused},
			{"another machine by MAC", ask{From: "172.16.0.66", Neighbor: macX, MAC: "52:54:00:00:00:01"}, fault.Refused},
			{"another machine by UUID", ask{From: "172.16.0.66", Neighbor: macX, UUID: uuidA}, fault.NoMatch},
			{"another host", ask{From: "172.16.0.66", Neighbor: "52:54:00:00:00:02", Hostname: "h1"}, fault.Refused},
			{"the host itself", ask{From: "172.16.0.66", Neighbor: "52:54:00:00:00:01", Hostname: "h1"}, fault.Internal},
			{"from behind a router", ask{From: "172.16.0.66", Hostname: "h1"}, fault.Internal},
		} {
			req := c.ask.Request(t)
			dec := d.Config(req)
			boots := d.Boot(req)
			for endpoint, got := range map[string]struct {
				err     *fault.Error
				host    *model.Host
				notices []Notice
			}{
				"config":       {dec.Err, dec.Host, dec.Notices},
				"boot":         {boots.Err, boots.Host, boots.Notices}, // boot-complete asks it too
				"image":        imageAnswer(d.Image(req, live, false)),
				"iSCSI target": imageAnswer(d.Target(req, "iqn.2026-11.dev.glowplug:g10:live")),
			} {
				refused := got.err != nil && got.err.Kind == fault.Refused
				told := slices.ContainsFunc(got.notices, func(n Notice) bool {
					return n.Reason == ReasonClaimRefused && n.Host.Name == "h1" && n.From == netaddr.SourceOf(req.Caller.Addr, req.Caller.MAC)
				})
				if want := c.want == fault.Refused; refused != want || told != want ||
					(got.host != nil) != (c.want == fault.Internal) {
					t.Errorf("%s, %s, %s: %v, host %v, notices %+v", name, c.name, endpoint, got.err, got.host, got.notices)
				}
			}
		}
	}
}

func imageAnswer(i ImageDecision) (answer struct {
	err     *fault.Error
	host    *model.Host
	notices []Notice
}) {
	answer.err, answer.host, answer.notices = i.Err, i.Host, i.Notices
	return answer
}

// TestTwoHostsOfOneMachine is a machine of which one host has the address and another the
// hardware address: the first is served, and its event names the other.
func TestTwoHostsOfOneMachine(t *testing.T) {
	l := &lab{}
	l.Host("g10", "by-mac", macA, "")
	l.Host("g10", "by-ip", "", "192.0.2.1")
	l.Config("g10", "c", Ignition, sel{Default: true})
	d := New(Options{Inventory: l.Inventory(t)})
	for _, c := range []struct {
		neighbor string
		want     []string
	}{{macA, []string{ReasonDuplicate + " g10/by-ip"}}, {macX, nil}, {"", nil}} {
		dec := d.Config(ask{From: "192.0.2.1", Neighbor: c.neighbor}.Request(t))
		if dec.Err != nil || dec.Host.Name != "by-ip" || !slices.Equal(notices(dec.Notices), c.want) {
			t.Errorf("neighbour %q: %v, %v; want %v", c.neighbor, dec.Err, notices(dec.Notices), c.want)
		}
		for _, n := range dec.Notices {
			if !strings.Contains(n.Message, "host g10/by-mac has its hardware address; delete one of the two hosts") {
				t.Errorf("the message is %q", n.Message)
			}
		}
	}
}
