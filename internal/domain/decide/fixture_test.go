package decide

import (
	"cmp"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/identity"
	"glowplug/internal/store/snapshot/labtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	lab = labtest.Lab
	sel = v1.IgnitionConfigSelector
	ask = Ask
)

const (
	macA, macB, macC, macD, macX = labtest.MACA, labtest.MACB, labtest.MACC, labtest.MACD, labtest.MACX
	uuidA, uuidX                 = labtest.UUIDA, labtest.UUIDX
	v34                          = labtest.V34
)

var (
	epoch = labtest.Epoch

	story, storyAnd, withNAT = labtest.Story, labtest.StoryAnd, labtest.WithNAT

	trust   = Policy{Claims: identity.Trust}
	deny    = Policy{Claims: identity.Deny}
	enforce = Policy{Neighbors: identity.NeighborsEnforce}
)

// What the tests of package decide_test, which compare decisions with what is said about them, share with
// those of decide.
var (
	Outcome, ListNotices, Rack = outcome, notices, rack

	Trust, Deny, Enforce = trust, deny, enforce

	BootKey, KindsOfLosses, Losing = bootKey, kindsOfLosses, losing
)

// Ask is a request, as a test writes it.
type Ask labtest.Ask

// Request returns the request.
func (a Ask) Request(t testing.TB) *Request {
	t.Helper()
	from := labtest.Ask(a)
	return &Request{
		Type: cmp.Or(a.Endpoint, Ignition), Accept: a.Accept, Caller: from.Caller(t), Claims: from.Claims(t),
	}
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
