package machine

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/serve/peer"
	"glowplug/internal/store/snapshot"
)

// lostObjects are the lost objects of a store.
type lostObjects decide.Lost

func (l lostObjects) Lost() decide.Lost { return decide.Lost(l) }

// TestLostKindsHoldUpWhatNeedsThem: what is missing as a whole holds up the machines whose boot
// it could change, and no others. An event of the host has the reason, and explain says it too.
func TestLostKindsHoldUpWhatNeedsThem(t *testing.T) {
	const damaged = "the server's store is damaged"
	for kind, lost := range map[string]decide.Lost{
		"nothing": {}, "images": {AllImages: true}, "namespaces": {AllNamespaces: true},
	} {
		inv := rackInventory(t)
		if lost.AllImages { // then none is read
			inv.Images().Load(nil)
		}
		decider := decide.New(decide.Options{
			Inventory: inv, Policy: decide.Policy{Claims: identity.Trust}, Lost: lostObjects(lost),
		})
		resolver := peer.NewResolver(peer.ResolverOptions{Table: neighbours{}})
		explain := Explain(decider, resolver, func() bool { return true }, false)
		held := 0
		view := inv.View()
		for _, h := range view.Hosts() {
			if len(h.MACs) == 0 || strings.HasPrefix(h.Namespace, "nat") {
				continue
			}
			r, _ := bootRig(t, decide.Policy{}, func(b *Boot) { b.Booter = decider })
			query := "mac=" + h.MACs[0].String()
			_, body, _ := r.do(t, http.MethodGet, "/ipxe?"+query)
			e := explained(t, explain, query+"&accept="+url.QueryEscape("*/*"))
			if e.Boot == nil {
				t.Fatalf("%s: %s is not explained: %+v", kind, h.Ref, e)
			}
			isHeld := strings.Contains(body, damaged)
			// iPXE has its own use for a semicolon.
			shown := strings.Contains(body, strings.ReplaceAll(e.Boot.Error, ";", ","))
			if isHeld != strings.Contains(e.Boot.Error, damaged) || isHeld && !shown {
				t.Errorf("%s: %s is explained as %q and gets\n%s", kind, h.Ref, e.Boot.Error, body)
			}
			needs := kind == "namespaces" && !e.Boot.Local && h.Booting().IPXE == "" ||
				kind == "images" && !e.Boot.Local && h.Image != (snapshot.Ref{})
			if needs != isHeld {
				t.Errorf("%s: %s is held up: %v\n%s", kind, h.Ref, isHeld, body)
			}
			if !isHeld {
				continue
			}
			held++
			notice := map[string]string{
				"images": decide.ReasonImageUnavailable, "namespaces": decide.ReasonScriptUnavailable,
			}[kind]
			if served, noticed := fmt.Sprint(r.journal.served), fmt.Sprint(r.journal.notices); served !=
				"["+h.Ref.String()+" failed]" || noticed != "["+notice+"]" {
				t.Errorf("%s: %s: noted %s, noticed %s", kind, h.Ref, served, noticed)
			}
		}
		if (held > 0) != (kind != "nothing") {
			t.Errorf("%s: %d hosts are held up", kind, held)
		}
	}
}

// TestLostImagesHoldUpTheMenu: an unknown machine is offered no menu without the images.
func TestLostImagesHoldUpTheMenu(t *testing.T) {
	known := decide.Identity{Host: &snapshot.Host{}}
	for name, c := range map[string]struct {
		lost Lost
		b    decide.BootDecision
		held bool
	}{
		"nothing is lost":           {Lost{}, decide.BootDecision{}, false},
		"images":                    {Lost{Images: true}, decide.BootDecision{}, true},
		"images, and it is refused": {Lost{Images: true}, decide.BootDecision{Err: fault.New(fault.Refused, "")}, false},
		"images, and it is a host":  {Lost{Images: true}, decide.BootDecision{Identity: known}, false},
		"stream releases":           {Lost{Streams: true}, decide.BootDecision{}, false},
	} {
		if got := c.lost.fromMenu(&c.b); got != c.held {
			t.Errorf("%s: %v", name, got)
		}
	}
}
