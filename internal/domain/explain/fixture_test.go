package explain

import (
	"cmp"
	"testing"

	"go.uber.org/goleak"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/store/snapshot/labtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	lab = labtest.Lab
	sel = v1.IgnitionConfigSelector
)

// ask is a request, as a test writes it.
type ask labtest.Ask

// Request returns the request.
func (a ask) Request(t testing.TB) *decide.Request {
	t.Helper()
	from := labtest.Ask(a)
	return &decide.Request{
		Type: cmp.Or(a.Endpoint, decide.Ignition), Accept: a.Accept, Caller: from.Caller(t), Claims: from.Claims(t),
	}
}
