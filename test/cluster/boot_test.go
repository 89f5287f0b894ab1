package cluster

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	bootPath    = "/api/v1/ignition?mac=52:54:00:00:00:01"
	bootContent = "/etc/cluster"
)

const bootObjects = `{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"one"},"spec":{"bootMACAddress":"52:54:00:00:00:01"}}`

const bootConfig = `{"apiVersion":"v1","kind":"IgnitionConfig","metadata":{"name":"one"},"spec":{"type":"ignition","format":"ignition",` +
	`"config":"{\"ignition\":{\"version\":\"3.4.0\"},\"storage\":{\"files\":[{\"path\":\"` + bootContent + `\"}]}}",` +
	`"selector":{"matchMACs":["52:54:00:00:00:01"]}}}`

// machine asks one server for its config all the time.
type machine struct {
	server *server
	want   string

	mu      sync.Mutex
	answers int
	slowest time.Duration
	faults  []string
}

func (m *machine) boot(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		status, text, err := m.server.ask(ctx, http.MethodGet, bootPath, "")
		if ctx.Err() != nil {
			return
		}
		m.mu.Lock()
		m.answers++
		m.slowest = max(m.slowest, time.Since(began))
		if (err != nil || status != http.StatusOK || text != m.want) && len(m.faults) < 10 {
			m.faults = append(m.faults, fmt.Sprintf("%d %.200s %v", status, text, err))
		}
		m.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}
