package template

import (
	"runtime"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
)

// TestNamespacesTakeTurnsAheadOfRequests: the hosts of a namespace with many slow renderings do not delay those
// of another, whose turn is next.
func TestNamespacesTakeTurnsAheadOfRequests(t *testing.T) {
	s := start(t, decide.Policy{})
	for _, namespace := range []string{"a", "b"} {
		s.put(namespace, "worker", v1.TypeIgnition, v1.FormatButane, butane("{{ .Name }}"))
		s.settled(namespace, "worker", "Ready 0/0/0")
	}
	workers := max(1, runtime.GOMAXPROCS(0)/2)
	hosts := 2*workers + 8
	gate, begun := make(chan struct{}, hosts), make(chan struct{}, hosts+1)
	defer close(gate)
	s.before = func() {
		begun <- struct{}{}
		<-gate
	}
	for n := range hosts {
		s.worker("a", n+1)
	}
	for range workers {
		<-begun
	}
	s.await("the queue", func() bool { return s.controller.hosts.Pending() == hosts-workers })
	s.worker("b", 200)
	s.await("the host of the other namespace", func() bool { return s.controller.hosts.Pending() == hosts-workers+1 })
	for range workers + 2 { // those that have begun, and one of each namespace
		gate <- struct{}{}
	}
	s.settled("b", "worker", "Ready 1/0/1")
	check(t, "most hosts of the first namespace wait", s.compiled.Load() < int64(hosts), true)
}
