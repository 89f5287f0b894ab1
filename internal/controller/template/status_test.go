package template

import (
	"slices"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/store/natsd"
)

// TestATemplateWithoutItsSecretIsNotReady: the status counts the hosts of a template that asks for a value
// that is not there, and follows the Secret.
func TestATemplateWithoutItsSecretIsNotReady(t *testing.T) {
	s := start(t, decide.Policy{})
	s.worker("a", 1)
	s.put("a", "t", v1.TypeIgnition, v1.FormatButane, butane(`'{{ secret "join" "token" }}'`))
	write := func(data map[string]string) {
		s.send("PATCH", "namespaces/a/secrets/join?fieldManager=test&force=true", applied,
			map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "join"},
				"stringData": data})
	}
	fails := func(want string) {
		t.Helper()
		status := s.settled("a", "t", "Error 0/1/1").Status
		if len(status.Hosts.Failures) != 1 || !strings.Contains(status.Hosts.Failures[0].Message, want) {
			t.Errorf("%+v, want %s", status.Hosts, want)
		}
	}
	fails("there is no Secret a/join")
	write(map[string]string{"other": "x"})
	s.await("the new reason", func() bool {
		return strings.Contains(s.config("a", "t").Status.ErrorMessage, "has no key")
	})
	fails(`the Secret a/join has no key "token"`)
	write(map[string]string{"token": "x"})
	s.settled("a", "t", "Ready 1/0/1")
	s.send("DELETE", "namespaces/a/secrets/join", "application/json", map[string]any{})
	fails("there is no Secret a/join")
}

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
