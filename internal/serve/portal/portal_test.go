package portal

import (
	"net/netip"
	"testing"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
	"glowplug/internal/serve/iscsi"
)

// Whoever keeps an image from being replaced by reading it does so for itself: a
// machine is not held on an old release by somebody else who says its name.
func TestReaderIsAMachine(t *testing.T) {
	host := decide.Identity{Host: &model.Host{Ref: model.Ref{Namespace: "rack", Name: "one"}}}
	reader := func(from string, i decide.ImageDecision) string {
		l := iscsi.Login{Initiator: "iqn.2010-04.org.example:one", Remote: netip.MustParseAddrPort(from)}
		return readerOf(l, clientOf(&i))
	}
	known, claimed := decide.ImageDecision{Identity: host, ByNetwork: true}, decide.ImageDecision{Identity: host}
	if reader("192.0.2.1:1", known) != reader("192.0.2.11:2", known) {
		t.Error("a host with another address is another reader")
	}
	if reader("192.0.2.66:1", claimed) != reader("192.0.2.66:2", claimed) {
		t.Error("another port is another reader")
	}
	for _, other := range []string{reader("192.0.2.66:1", claimed), reader("192.0.2.66:1", decide.ImageDecision{})} {
		if other == reader("192.0.2.1:1", known) || other == reader("192.0.2.67:1", claimed) {
			t.Errorf("%s is two machines", other)
		}
	}
}
