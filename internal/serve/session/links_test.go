package session

import (
	"testing"
	"time"
)

// TestLinksThatWait: a code has its token once, within a minute; of too many the oldest is gone.
func TestLinksThatWait(t *testing.T) {
	l, now := NewLinks(), time.Now()
	for name, c := range map[string]struct {
		after []time.Duration
		token string // at the last try
	}{
		"at once":          {[]time.Duration{0}, "token"},
		"within a minute":  {[]time.Duration{LinkTime - time.Second}, "token"},
		"a second time":    {[]time.Duration{0, 0}, ""},
		"after the minute": {[]time.Duration{LinkTime + time.Second}, ""},
		"again, in time":   {[]time.Duration{LinkTime + time.Second, 0}, ""},
	} {
		code, got := l.Add("ann", "token", now), ""
		for _, after := range c.after {
			got = l.Redeem(code, now.Add(after))
		}
		if got != c.token {
			t.Errorf("%s: %q", name, got)
		}
	}
	if l.Redeem("", now) != "" || l.Redeem("made up", now) != "" {
		t.Error("a code that nobody has made has a token")
	}
	oldest, other := l.Add("ann", "token", now), l.Add("vic", "token of vic", now)
	for range maxOfUser {
		l.Add("ann", "token", now)
	}
	if l.Redeem(oldest, now) != "" || l.Redeem(other, now) != "token of vic" {
		t.Error("a user has more links than are allowed, or has pushed out those of others")
	}
	l.Add("bob", "token", now.Add(LinkTime+time.Second))
	if l.byCode.Len() != 1 {
		t.Errorf("%d links wait, with those whose time is over", l.byCode.Len())
	}
}
