package machine

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
	"glowplug/internal/serve/peer"
)

// lostObjects are the lost objects of a store.
type lostObjects decide.Losses

func (l lostObjects) Lost() decide.Losses { return decide.Losses(l) }

// TestLostKindsHoldUpWhatNeedsThem: what is missing as a whole holds up the machines whose boot
// it could change, and no others. An event of the host has the reason, and explain says it too.
func TestLostKindsHoldUpWhatNeedsThem(t *testing.T) {
	const damaged = "the server's store is damaged"
	for kind, lost := range map[string]decide.Losses{
		"nothing": {}, "images": {Images: true}, "namespaces": {Namespaces: true},
	} {
		inv := rackInventory(t)
		if lost.Images { // then none is read
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
				kind == "images" && !e.Boot.Local && h.Image != (model.Ref{})
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

// TestLossesHoldUpStrangers: an unknown machine is offered no menu without the images, and is not told that there is
// no such image or stream.
func TestLossesHoldUpStrangers(t *testing.T) {
	inv := rackInventory(t)
	inv.Images().Load(nil)
	decider := decide.New(decide.Options{Inventory: inv, Lost: lostObjects{Images: true}})
	b, _ := rackBoot(t, decide.Policy{})
	b.Booter = decider
	r := newRig(t, decide.ConfigDecision{}, func(o *Options) {
		o.Boot = b
		o.Streams = &Streams{
			Document: func(string, string) ([]byte, string, bool) { return nil, "", false }, Lost: func() bool { return true },
		}
	})
	for path, want := range map[string]int{"/ipxe": 200, "/streams/stable.json": 503} {
		code, body, _ := r.do(t, http.MethodGet, path)
		if code != want || path == "/ipxe" && !strings.Contains(body, "the store has lost images") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}
