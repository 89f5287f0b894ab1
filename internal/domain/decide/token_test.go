package decide

import (
	"strings"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
)

var bootKey = boottoken.NewKey([]byte("key of the test"))

// TestTokensOfBoots: a token is issued once a boot, and each is later than all before it. Repeated requests
// of the firmware and arming do not change it.
func TestTokensOfBoots(t *testing.T) {
	h := newArmedHost(model.Limits{Token: true})
	issue := func(again bool, at string) time.Time {
		t.Helper()
		offset, err := time.ParseDuration(at)
		if err != nil {
			t.Fatal(err)
		}
		h.progress = IssueToken(h.Host, h.progress, again, epoch.Add(offset))
		h.do(t, map[bool]string{false: "script@", true: "script@"}[again]+at)
		return h.progress.Window.Token
	}
	first := issue(false, "1m")
	if !first.Equal(epoch.Add(time.Minute)) {
		t.Errorf("issued at %v", first)
	}
	for name, at := range map[string]string{"a retry of the firmware": "1m5s", "its next one": "1m9s"} {
		if got := issue(false, at); !got.Equal(first) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := issue(true, "10m"); !got.Equal(first) {
		t.Errorf("a retry of the script: %v", got)
	}
	h.do(t, "rearm@10m1s")
	if got := issue(true, "10m2s"); !got.Equal(first) {
		t.Errorf("armed meanwhile: %v", got)
	}
	h.do(t, "A@11m")
	second := issue(false, "11m0.5s")
	if !second.After(first) {
		t.Errorf("the next boot: %v", second)
	}
	h.do(t, "A@11m0.6s")
	if third := issue(false, "11m0.7s"); !third.After(second) {
		t.Errorf("a boot in the same second: %v", third)
	}
	h.do(t, "A@12m")
	if got := issue(false, "-600m"); !got.After(second) {
		t.Errorf("a clock that was set back: %v", got)
	}
}

// tokenLab is a host that needs the token of its boot, and its images.
func tokenLab(t *testing.T) (*Decider, *model.Host) {
	t.Helper()
	var l lab
	h := l.Host("g10", "server1", "ac:1f:6b:8a:a7:9c", "192.0.2.10")
	yes := true
	h.Spec.Provisioning, h.Spec.Image = &v1.Provisioning{Token: &yes}, "live"
	l.Config("g10", "base", v1.TypeIgnition, v1.IgnitionConfigSelector{Default: true})
	for _, name := range []string{"live", "other"} {
		l.Image("g10", name, "")
		l.Images[len(l.Images)-1].Status = v1.ISCSICdromStatus{
			Phase: v1.PhaseReady, TargetIQN: "iqn.2026-01.test:" + name,
		}
	}
	inv := l.Inventory(t)
	view := inv.View()
	host := view.Host(model.Ref{Namespace: "g10", Name: "server1"})
	issued := IssueToken(host, host.Progress, false, epoch.Add(time.Hour))
	return New(Options{Inventory: inv, Tokens: bootKey, Progress: fixedProgress(issued)}), host
}

type fixedProgress model.Progress

func (p fixedProgress) Progress(*model.Host) model.Progress { return model.Progress(p) }

// TestRequestsWithoutTheToken: neither a config nor the image of the host is given without the token of
// the present boot, over HTTP and iSCSI. A server that has not heard of the present boot accepts a later one.
func TestRequestsWithoutTheToken(t *testing.T) {
	d, h := tokenLab(t)
	issued := epoch.Add(time.Hour)
	const foreign = "has a token that is not one of this host"
	for name, tt := range map[string]struct {
		token  string
		reason string
	}{
		"the present boot":  {bootKey.Token(h.UID, issued), ""},
		"a later boot":      {bootKey.Token(h.UID, issued.Add(time.Minute)), ""},
		"an earlier boot":   {bootKey.Token(h.UID, issued.Add(-time.Second)), "has the token of an earlier boot"},
		"another host":      {bootKey.Token("uid-2", issued), foreign},
		"another key":       {boottoken.NewKey([]byte("x")).Token(h.UID, issued), foreign},
		"the placeholder":   {boottoken.Placeholder, foreign},
		"without any token": {"", "has no token"},
	} {
		req := ask{From: "192.0.2.10"}.Request(t)
		req.At, req.Claims.Token = issued, tt.token
		config := d.Config(req)
		image := d.Image(req, h.Image, false)
		target := d.Target(req, "iqn.2026-01.test:live")
		for what, err := range map[string]error{
			"config": errorOf(config.Err), "image": errorOf(image.Err), "target": errorOf(target.Err),
		} {
			switch {
			case tt.reason == "" && err != nil:
				t.Errorf("%s, %s: %v", name, what, err)
			case tt.reason != "" && (err == nil || !strings.Contains(err.Error(), tt.reason)):
				t.Errorf("%s, %s: %v, want %q", name, what, err, tt.reason)
			case err != nil && tt.token != "" && strings.Contains(err.Error(), tt.token):
				t.Errorf("the error has the token: %v", err)
			}
		}
		if image.Missed || target.Missed {
			t.Errorf("%s: a request for the host's own image counts as a guess", name)
		}
		if tt.reason != "" {
			for _, notices := range [][]Notice{config.Notices, image.Notices, target.Notices} {
				if len(notices) != 1 || notices[0].Reason != ReasonTokenRefused || notices[0].Host == nil {
					t.Errorf("%s: %v", name, notices)
				}
			}
		} else if image.Token != tt.token || target.Token != tt.token {
			t.Errorf("%s: the image has the token %q, the target %q", name, image.Token, target.Token)
		}
		other := d.Image(req, model.Ref{Namespace: "g10", Name: "other"}, false)
		if other.Err != nil || other.Token != "" {
			t.Errorf("%s: an image for everybody: %v, token %q", name, other.Err, other.Token)
		}
	}
	req := ask{From: "192.0.2.10"}.Request(t)
	req.At, req.Caller.Believed = issued, true
	if dec := d.Config(req); dec.Err != nil {
		t.Errorf("a believed caller: %v", dec.Err)
	}
	if image := d.Image(req, h.Image, false); image.Err != nil || image.Token != "" {
		t.Errorf("a believed caller: %v %q", image.Err, image.Token)
	}
}

// errorOf returns an error that is nil where err is.
func errorOf(failure *fault.Error) error {
	if failure == nil {
		return nil
	}
	return failure
}
