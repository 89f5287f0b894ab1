package template

import (
	"slices"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/store/natsd"
)

// TestStatusTooLargeForTheStoreIsSaid: a template whose status does not fit into a
// message is not Pending for ever.
func TestStatusTooLargeForTheStoreIsSaid(t *testing.T) {
	s := start(t, decide.Policy{})
	s.cramped.Store(true)
	s.worker("a", 1)
	s.put("a", "t", v1.TypeIgnition, v1.FormatButane, butane("{{ .Hostname }}"))
	s.await("the refusal", func() bool {
		status := s.config("a", "t").Status
		return status.Phase == v1.PhaseError && strings.Contains(status.ErrorMessage, natsd.PayloadRemedy)
	})
	s.await("an event", func() bool {
		s.events.mu.Lock()
		defer s.events.mu.Unlock()
		return slices.Contains(s.events.all, "t Warning RenderFailed")
	})
	s.cramped.Store(false)
	s.controller.statuses.Enqueue(Ref{Namespace: "a", Name: "t"}) // as after a minute
	s.settled("a", "t", "Ready 1/0/1")
}
