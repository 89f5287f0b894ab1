package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/testkit"
)

// slowTemplate takes nearly all steps that a template may take for a host.
func slowTemplate(version string) *v1.IgnitionConfig {
	items := strings.TrimSuffix(strings.Repeat("x,", 230), ",")
	loop := `{{range splitList "," "` + items + `"}}`
	c := config("slow", "# "+version+"\n"+loop+loop+`{{if eq . "y"}}{{end}}{{end}}{{end}}`+motd(`{{.Hostname}} `+version))
	c.Spec.Template = true
	c.Spec.Selector.MatchLabels = map[string]string{"role": "slow"}
	return c
}

// TestSlowTemplatesDelayNoWrite: a template that takes long for each of its hosts delays neither the write of it
// beyond the time of an admission, nor the impact of the writes of others.
func TestSlowTemplatesDelayNoWrite(t *testing.T) {
	a := startPredicting(t)
	for i := range 60 {
		h := host(fmt.Sprintf("slow%d", i))
		h.Spec = v1.BareMetalHostSpec{IP: fmt.Sprintf("192.0.2.%d", i+1), Labels: map[string]string{"role": "slow"}}
		a.must(http.StatusCreated, "POST", hosts, h)
	}
	a.must(http.StatusCreated, "POST", configs, slowTemplate("1"))
	began := time.Now()
	got := a.must(http.StatusOK, "PUT", configs+"/slow", slowTemplate("2")).warnings
	if took := time.Since(began); took > 4*admissionTime {
		t.Errorf("the write took %s", took)
	}
	if !slices.Contains(got, takesTooLong) {
		t.Errorf("the write warns: %q", got)
	}
	// Nothing is left at work that others would wait for.
	testkit.Until(t, "it comes to pass", func() bool { return a.server.impacts.turns.Stats().Used == 0 })
	a.server.impacts.meters = newMeters()
	got = impactsIn(a.must(http.StatusOK, "PUT", configs+"/c", selecting("c", motd("2"))))
	if !slices.Equal(got, []string{"impact on 1 of 61 hosts: other contents of the config (g10/x)"}) {
		t.Errorf("another write: %q", got)
	}
}

// TestPredictionsTakeTurnsByUser: the predictions of a user wait for each other, and those of another user do not
// wait for them; the time that is spent is that of the user.
func TestPredictionsTakeTurnsByUser(t *testing.T) {
	p := newImpacts(&Options{})
	of := func(user string) context.Context {
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), clientKey{}, user), 20*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	end := p.begin(of("ann"))
	if end == nil || p.begin(of("ann")) != nil {
		t.Fatal("two predictions of a user at a time, or none")
	}
	if other := p.begin(of("bob")); other == nil {
		t.Error("bob waits for ann")
	} else {
		other()
	}
	end()
	if end = p.begin(of("ann")); end == nil {
		t.Fatal("the turn was not given back")
	}
	spend(p.meters.get("ann"), time.Now(), 2*maxBalance)
	if p.meters.get("ann").Tokens() > 0 || p.meters.get("bob").Tokens() <= 0 {
		t.Error("the time of ann is that of bob")
	}
	for i := range 2 * maxMeters {
		p.meters.get(strconv.Itoa(i))
	}
	if n := p.meters.of.Len(); n != maxMeters {
		t.Errorf("%d meters are kept", n)
	}
}

// TestUntilEndWaitsForNothing: what cannot be broken off goes on without the request, and keeps its turn.
func TestUntilEndWaitsForNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	release, ended := make(chan struct{}), make(chan struct{})
	_, err := untilEnd(ctx, func() { close(ended) }, func() (int, error) { <-release; return 1, nil })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case <-ended:
		t.Error("the turn was given back before the end")
	default:
	}
	close(release)
	<-ended
	if n, err := untilEnd(t.Context(), func() {}, func() (int, error) { return 2, nil }); n != 2 || err != nil {
		t.Error(n, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a panic is lost")
		}
	}()
	_, _ = untilEnd(t.Context(), func() {}, func() (int, error) { panic("of a library") })
}
