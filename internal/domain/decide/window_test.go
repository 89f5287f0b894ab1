package decide

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
)

var (
	clientA = netip.MustParseAddr("192.0.2.10")
	clientB = netip.MustParseAddr("192.0.2.11")
	clientC = netip.MustParseAddr("192.0.2.12")
	twoHour = model.Limits{Window: 2 * time.Hour}
)

// armedHost is a host with limits, whose machine boots.
type armedHost struct {
	*model.Host
	progress model.Progress
	limits   model.Limits
	seconds  []string // the requests of second clients
}

func newArmedHost(limits model.Limits) *armedHost {
	return &armedHost{
		Host: &model.Host{
			Ref: model.Ref{Namespace: "g10", Name: "server1"}, Created: epoch, Boot: &model.HostBoot{},
		},
		limits: limits,
	}
}

// do applies steps, at minutes after the creation of the host, and returns what refused the last one:
// "script", "again", "disk", "complete", "rearm", or an address that fetches the config.
func (h *armedHost) do(t *testing.T, steps string) (refused string) {
	t.Helper()
	for step := range strings.FieldsSeq(steps) {
		what, minute, _ := strings.Cut(step, "@")
		offset, err := time.ParseDuration(minute)
		if err != nil {
			t.Fatal(err)
		}
		at := epoch.Add(offset)
		refused = ""
		switch what {
		case "labelled": // created with the annotation
			h.Boot = &model.HostBoot{Rearm: minute}
		case "rearm":
			h.Boot = &model.HostBoot{Rearm: minute, Armed: at.Truncate(time.Second)}
		case "script":
			h.progress, _ = Advance(h.Host, h.progress, ImageStep, at)
		case "disk":
			h.progress, _ = Advance(h.Host, h.progress, DiskStep, at)
		case "complete":
			h.progress, _ = Advance(h.Host, h.progress, CompleteStep, at)
		case "A", "B", "C":
			client := map[string]netip.Addr{"A": clientA, "B": clientB, "C": clientC}[what]
			var second bool
			if h.progress, second, refused = Fetch(h.Host, h.progress, h.limits, client, at); refused == "" {
				h.progress, _ = Advance(h.Host, h.progress, ConfigStep, at)
			}
			if second {
				h.seconds = append(h.seconds, step)
			}
		default:
			t.Fatal(step)
		}
	}
	return refused
}

// TestProvisioningWindow: the window opens when a host is created or armed again, and closes when its
// time is over or the machine is provisioned. No retry within it is refused.
func TestProvisioningWindow(t *testing.T) {
	const closed, ended = "is closed: the machine is provisioned", "ended at"
	for name, tt := range map[string]struct{ steps, refused string }{
		"at once":                          {"script@1m A@2m", ""},
		"until its end":                    {"script@1m A@120m", ""},
		"after its end":                    {"script@1m A@2m A@121m", ended},
		"never asked before its end":       {"A@121m", ended},
		"boots and retries":                {"script@1m A@2m A@3m script@10m A@11m A@100m", ""},
		"after boot-complete":              {"script@1m A@2m complete@20m A@21m", closed},
		"the disk alone is no end":         {"script@1m A@2m disk@20m A@21m", ""},
		"the disk, then boot-complete":     {"script@1m A@2m disk@20m complete@22m A@23m", closed},
		"armed again":                      {"script@1m A@2m complete@20m rearm@300m A@301m", ""},
		"armed again, after its end":       {"script@1m A@2m complete@20m rearm@300m A@421m", ended},
		"armed again, after boot-complete": {"A@2m complete@20m rearm@300m script@301m A@302m complete@303m A@304m", closed},
		"armed again before the end":       {"script@1m A@2m rearm@60m A@179m", ""},
		"armed during the installation":    {"script@1m A@2m rearm@3m complete@20m script@21m A@22m", ""},
		"armed during it, then a retry":    {"script@1m A@2m rearm@3m A@4m complete@20m script@21m A@22m", ""},
		"the second time closes it":        {"script@1m A@2m rearm@3m A@4m complete@20m script@21m A@22m complete@30m A@31m", closed},
		"without scripts":                  {"A@2m complete@20m rearm@300m A@301m complete@302m A@303m", closed},
		"created with the annotation":      {"labelled@0m complete@1m A@2m", closed},
		"the same, after its config":       {"labelled@0m A@1m complete@2m A@3m", closed},
		"the same, with a script":          {"labelled@0m script@1m A@2m complete@3m A@4m", closed},
		"a clock that was set back":        {"script@1m A@2m A@-600m", ""},
	} {
		h := newArmedHost(twoHour)
		if got := h.do(t, tt.steps); tt.refused == "" && got != "" || !strings.Contains(got, tt.refused) {
			t.Errorf("%s: %q, want %q", name, got, tt.refused)
		}
	}
}

// TestProvisionedBeforeItsWindow: a host that was provisioned before anybody limited its config has no
// open window, however new it is.
func TestProvisionedBeforeItsWindow(t *testing.T) {
	h := newArmedHost(model.Limits{})
	h.do(t, "script@1m A@2m complete@3m")
	h.progress.Window = nil
	h.limits = twoHour
	if h.do(t, "A@4m") == "" {
		t.Error("a provisioned host receives its config")
	}
	if got := h.do(t, "rearm@5m script@6m A@7m"); got != "" {
		t.Error(got)
	}
	// Without scripts, nothing but boot-complete says that the annotation has taken effect.
	for name, steps := range map[string]string{
		"armed again":                 "A@2m complete@3m rearm@10m A@11m complete@12m",
		"created with the annotation": "labelled@0m A@2m complete@3m",
	} {
		h := newArmedHost(model.Limits{})
		h.do(t, steps)
		h.progress.Window = nil
		h.limits = twoHour
		if h.do(t, "A@13m") == "" {
			t.Errorf("%s: a provisioned host receives its config", name)
		}
	}
}

// TestRetriesOfManyClients: no client of a boot is refused for requests that others have sent in between,
// and none is free in a later boot.
func TestRetriesOfManyClients(t *testing.T) {
	h := newArmedHost(model.Limits{MaxFetches: 3})
	for step := range strings.FieldsSeq("script@1m A@2m B@2m C@2m B@3m C@3m B@3m A@3m") {
		if got := h.do(t, step); got != "" {
			t.Errorf("%s: %s", step, got)
		}
	}
	h = newArmedHost(model.Limits{MaxFetches: 2})
	h.do(t, "script@1m A@2m script@10m B@11m")
	if h.do(t, "A@12m") == "" {
		t.Error("the first client is free in a later boot")
	}
}

// TestMaxFetches: the config is served so many times, and the retries of an installer count once.
func TestMaxFetches(t *testing.T) {
	h := newArmedHost(model.Limits{MaxFetches: 2})
	for range 100 {
		if got := h.do(t, "A@2m A@3m"); got != "" {
			t.Fatalf("a retry was refused: %s", got)
		}
	}
	if n := h.progress.Window.Fetches; n != 1 {
		t.Errorf("%d fetches", n)
	}
	if got := h.do(t, "script@10m A@11m A@12m"); got != "" {
		t.Errorf("the second boot: %s", got)
	}
	const limit = "its maxFetches of 2 is used up since 2026-01-01T00:00:00Z"
	if got := h.do(t, "script@20m A@21m"); !strings.Contains(got, limit) {
		t.Errorf("the third boot: %q", got)
	}
	if got := h.do(t, "B@22m"); got == "" {
		t.Error("another address is served")
	}
	if got := h.do(t, "rearm@30m A@31m"); got != "" {
		t.Errorf("armed again: %s", got)
	}
	if got := Closed(h.Host, h.progress, model.Limits{MaxFetches: 1}, netip.Addr{}, epoch); got == "" {
		t.Error("a client that is not known counts as one that was served")
	}
}

// TestSecondClient: another address than the first in a window is noticed, once in a boot, and after an
// arming the next address is the first one.
func TestSecondClient(t *testing.T) {
	h := newArmedHost(twoHour)
	h.do(t, "script@1m A@2m A@3m B@4m A@5m B@6m script@10m B@11m A@12m")
	if got := strings.Join(h.seconds, " "); got != "B@4m B@11m" {
		t.Errorf("got %s", got)
	}
	w := h.progress.Window
	if w.First != clientA || w.Fetches != 4 {
		t.Errorf("%+v", w)
	}
	h.seconds = nil
	if h.do(t, "complete@20m rearm@30m script@31m B@32m"); len(h.seconds) > 0 {
		t.Errorf("got %s", h.seconds)
	}
}

// TestMergedWindows: of what two servers have recorded, that counts by which more is refused.
func TestMergedWindows(t *testing.T) {
	w := func(opened, closed, fetches int64) *model.Window {
		w := &model.Window{Opened: time.Unix(opened, 0), Fetches: fetches}
		if closed > 0 {
			w.Closed = time.Unix(closed, 0)
		}
		return w
	}
	for name, tt := range map[string]struct{ a, b, want *model.Window }{
		"none":          {},
		"one":           {w(1, 0, 3), nil, w(1, 0, 3)},
		"the other":     {nil, w(1, 0, 3), w(1, 0, 3)},
		"later":         {w(1, 2, 3), w(5, 0, 1), w(5, 0, 1)},
		"earlier":       {w(5, 0, 1), w(1, 2, 3), w(5, 0, 1)},
		"closed":        {w(1, 2, 3), w(1, 0, 1), w(1, 2, 3)},
		"closed by one": {w(1, 0, 1), w(1, 2, 3), w(1, 2, 3)},
	} {
		if got := LaterWindow(tt.a, tt.b); !sameWindow(got, tt.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestScriptsWithinABoot: a machine that has received its config may ask for its script again in the same
// boot, also where its number of configs is used up.
func TestScriptsWithinABoot(t *testing.T) {
	var l lab
	h := l.Host("g10", "server1", "ac:1f:6b:8a:a7:9c", "192.0.2.10")
	one := int32(1)
	h.Spec.IPXE, h.Spec.Provisioning = "echo hi", &v1.Provisioning{MaxFetches: &one}
	inv := l.Inventory(t)
	host := inv.View().Host(model.Ref{Namespace: "g10", Name: "server1"})
	p, _ := Advance(host, host.Progress, ImageStep, epoch)
	p, _, _ = Fetch(host, p, model.Limits{MaxFetches: 1}, clientA, epoch)
	d := New(Options{Inventory: inv, Progress: fixedProgress(p)})
	for name, tt := range map[string]struct {
		after   time.Duration
		again   bool
		refused bool
	}{
		"a retry of the firmware": {5 * time.Second, false, false},
		"a retry of the script":   {time.Minute, true, false},
		"the next boot":           {time.Minute, false, true},
	} {
		req := ask{Endpoint: IPXE, From: "192.0.2.10"}.Request(t)
		req.At, req.Again = epoch.Add(tt.after), tt.again
		if b := d.Boot(req); (b.Err != nil) != tt.refused {
			t.Errorf("%s: %v", name, b.Err)
		}
	}
}
