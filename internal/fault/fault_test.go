package fault

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
)

func TestTable(t *testing.T) {
	for _, c := range []struct {
		kind   Kind
		status int
		level  slog.Level
	}{
		{Internal, http.StatusInternalServerError, slog.LevelError},
		{Malformed, http.StatusBadRequest, slog.LevelWarn},
		{Refused, http.StatusForbidden, slog.LevelWarn},
		{NoMatch, http.StatusNotFound, slog.LevelInfo},
		{NotAcceptable, http.StatusNotAcceptable, slog.LevelWarn},
		{Unavailable, http.StatusServiceUnavailable, slog.LevelWarn},
	} {
		if c.kind.Status() != c.status || c.kind.Level() != c.level {
			t.Errorf("kind %d: %d %v; want %d %v", c.kind, c.kind.Status(), c.kind.Level(), c.status, c.level)
		}
	}
	if len(table) != int(Unavailable)+1 {
		t.Errorf("the table has %d kinds; a new one needs a line here", len(table))
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
