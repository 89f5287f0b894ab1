package machine

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
	"glowplug/internal/logs"
	"glowplug/internal/logs/logstest"
	"glowplug/internal/serve/peer"
)

// byAddress decides by the address that asks: some are hosts, some are given a default
// config, all others nothing.
type byAddress struct{}

func (byAddress) InstallDevice(*model.Host) string { return "" }

func (byAddress) Config(req *decide.Request) (d decide.ConfigDecision) {
	switch from := req.Caller.Addr.String(); {
	case strings.HasPrefix(from, "10.1."):
		d.Host, d.Config, d.Tier = &model.Host{Ref: model.Ref{Namespace: "g10", Name: from}}, testConfig, match.Labels
	case strings.HasPrefix(from, "10.2."):
		d.Config, d.Tier = testConfig, match.Default
	default:
		d.Err = fault.New(fault.Refused, "the claimed mac is that of a host which does not boot from here")
	}
	return d
}

// A flood leaves a bounded number of lines and their count; no line of a boot, and none
// of another source, is lost to it.
func TestFloodOfRequestsLeavesFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logstest.Buffer
		handler := logs.NewHandler(&out, logs.Options{})
		reports, reported := logstest.Logger()
		limiter := logs.NewLimiter(reports, nil)
		s := New(Options{
			Decider: byAddress{}, Log: handler, Limiter: limiter, Boot: &Boot{},
			Resolver: peer.NewResolver(peer.ResolverOptions{Neighbors: identity.NeighborsOff}),
		})
		ask := func(from, path string, times int) {
			for range times {
				r := httptest.NewRequest("GET", path, nil)
				r.RemoteAddr = from + ":4000"
				s.ServeHTTP(httptest.NewRecorder(), r)
			}
		}
		const flood = 10_000
		ask("10.0.0.1", PathIgnition, flood)
		ask("10.0.0.2", PathScript, flood)
		ask("10.0.0.3", "/api/v1/ignition?mac=nonsense", flood)
		ask("10.0.0.4", PathIgnition, 1)
		const boots = 4000 // in two seconds, each of two requests
		for n := range boots {
			host, stranger := fmt.Sprintf("10.1.%d.%d", n/250, n%250), fmt.Sprintf("10.2.%d.%d", n/250, n%250)
			ask(host, PathIgnition, 2)
			ask(stranger, PathIgnition, 2)
			time.Sleep(time.Second / 2000)
		}
		if err := handler.Close(); err != nil {
			t.Fatal(err)
		}
		limiter.Close()
		lines := map[string]int{}
		for line := range strings.Lines(out.String()) {
			_, from, _ := strings.Cut(line, " client=")
			from, _, _ = strings.Cut(from, " ")
			lines[from]++
		}
		for from, most := range map[string]int{"10.0.0.1": 100, "10.0.0.2": 300, "10.0.0.3": 100} {
			if lines[from] == 0 || lines[from] > most {
				t.Errorf("%d lines of the flood of %s", lines[from], from)
			}
			want := fmt.Sprintf(" source=%s lines=%d\n", from, flood-lines[from])
			if !strings.Contains(reported(), want) {
				t.Errorf("no line%s in %s", want, reported())
			}
			delete(lines, from)
		}
		if lines["10.0.0.4"] != 1 {
			t.Errorf("%d lines of another source", lines["10.0.0.4"])
		}
		delete(lines, "10.0.0.4")
		for from, n := range lines {
			if n != 2 {
				t.Errorf("%d lines of the boot of %s", n, from)
			}
		}
		if len(lines) != 2*boots {
			t.Errorf("%d of %d boots have left lines", len(lines), 2*boots)
		}
	})
}

// A token that is not valid is seen, with a claim and without, and is not told.
func TestRefusedTokenOfAMachineIsSeen(t *testing.T) {
	paths := []string{PathIgnition + "?mac=52:54:00:00:00:01", PathIgnition, PathIPXE, PathStreams + "x.json"}
	for _, path := range paths {
		r := newRig(t, found(testConfig))
		do(t, r, "GET", path, http.Header{"Authorization": {"Bearer s3cret-t0ken"}})
		got := r.logged()
		if !strings.Contains(got, "level=WARN") || !strings.Contains(got, " credential=refused ") || strings.Contains(got,
			"s3cret") {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func TestFailureLevel(t *testing.T) {
	for kind, want := range map[fault.Kind]slog.Level{
		fault.Internal:      slog.LevelError,
		fault.Malformed:     slog.LevelWarn,
		fault.Refused:       slog.LevelWarn,
		fault.NoMatch:       slog.LevelInfo,
		fault.NotAcceptable: slog.LevelWarn,
		fault.Unavailable:   slog.LevelWarn,
	} {
		if got := failureLevel(kind, false); got != want {
			t.Errorf("kind %d: %v; want %v", kind, got, want)
		}
		// A 404 is final for the machine of a known host.
		if got := failureLevel(kind, true); got != max(want, slog.LevelWarn) {
			t.Errorf("kind %d of a host: %v", kind, got)
		}
	}
}
