package fault

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
)

func TestTable(t *testing.T) {
	for _, c := range []struct {
		kind   Kind
		status int
	}{
		{Internal, http.StatusInternalServerError},
		{Malformed, http.StatusBadRequest},
		{Refused, http.StatusForbidden},
		{NoMatch, http.StatusNotFound},
		{NotAcceptable, http.StatusNotAcceptable},
		{Unavailable, http.StatusServiceUnavailable},
	} {
		if c.kind.Status() != c.status {
			t.Errorf("kind %d: %d; want %d", c.kind, c.kind.Status(), c.status)
		}
	}
	if len(statuses) != int(Unavailable)+1 {
		t.Errorf("the table has %d kinds; a new one needs a line here", len(statuses))
	}
}

func TestOf(t *testing.T) {
	refused := New(Refused, "the claim does not hold")
	if got := Of(fmt.Errorf("while deciding: %w", refused)); got != refused {
		t.Errorf("Of = %v", got)
	}
	cause := errors.New("dial tcp: password=hunter2")
	got := Of(cause)
	if got.Kind != Internal || got.Sentence != "internal error" || !errors.Is(got, cause) {
		t.Errorf("Of = %+v", got)
	}
	if got.Error() != "internal error: dial tcp: password=hunter2" || refused.Error() != "the claim does not hold" {
		t.Errorf("Error = %q, %q", got, refused)
	}
}
