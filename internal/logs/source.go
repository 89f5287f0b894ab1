package logs

import (
	"net/netip"
	"strings"
	"sync"
	"time"

	"glowplug/internal/domain/netaddr"
)

// Kind is what came of a request. The lines of each kind are bounded for themselves.
type Kind uint8

const (
	// Known is a request of a known host or of a caller with a valid credential.
	Known Kind = iota
	// Served is one of a stranger that was given what it asked for.
	Served
	// Refused is one of a stranger that was not.
	Refused
	// Written is a write through the API that was applied.
	Written
	// Library is what a library has to say about requests of anybody.
	Library
	kinds
)

// String is the kind's name in the log and in the metric.
func (k Kind) String() string {
	return [kinds]string{"known", "served", "refused", "written", "library"}[k]
}

// Source is whose lines are counted together. Fields that are not known are zero.
type Source struct {
	Kind Kind
	// Namespace and Name are a host's; Name alone is a user's, or that of a library.
	Namespace, Name string
	// Addr is what the client's address counts as: see netaddr.Source.
	Addr netip.Addr
	MAC  netaddr.MAC
}

// String says who it is.
func (s Source) String() string {
	var parts []string
	switch {
	case s.Namespace != "":
		parts = append(parts, "host "+s.Namespace+"/"+s.Name)
	case s.Kind == Library:
		parts = append(parts, s.Name)
	case s.Name != "":
		parts = append(parts, "user "+s.Name)
	}
	if s.MAC != (netaddr.MAC{}) {
		parts = append(parts, s.MAC.String())
	}
	if s.Addr.IsValid() {
		parts = append(parts, netaddr.SourceText(s.Addr))
	}
	if len(parts) == 0 {
		return "unknown"
	}
	return strings.Join(parts, ", ")
}

// clone keeps no more of a source in memory than its own letters.
func (s Source) clone() Source {
	s.Namespace, s.Name = strings.Clone(s.Namespace), strings.Clone(s.Name)
	return s
}

// Stranger is the source of a stranger: its hardware address where that is known, for
// one card can have many addresses, else its address.
func Stranger(kind Kind, addr netip.Addr, mac netaddr.MAC) Source {
	if mac != (netaddr.MAC{}) {
		return Source{Kind: kind, MAC: mac}
	}
	return Source{Kind: kind, Addr: netaddr.Source(addr)}
}

// bucket has a token for each line that may be written now.
type bucket struct {
	tokens float64
	at     time.Time
	// left counts the lines that were left out.
	left uint64
}

func full(r rate, now time.Time) bucket { return bucket{tokens: r.burst, at: now} }

// fill adds what has come since it was last looked at.
func (b *bucket) fill(r rate, now time.Time) {
	if past := now.Sub(b.at); past > 0 {
		b.tokens, b.at = min(r.burst, b.tokens+past.Seconds()*r.each), now
	}
}

// counts are the buckets of a kind.
type counts struct {
	bound *bound

	mu      sync.Mutex
	all     bucket
	sources map[Source]*bucket
	// swept is when buckets that had become full again were last given up.
	swept time.Time
	// unlisted are the lines left out of sources without a bucket of their own.
	unlisted uint64
}

// take reports whether there is a token for a line, which it takes.
func (c *counts) take(now time.Time, s *Source) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.fill(c.bound.all, now)
	b := c.bucketOf(now, s)
	switch {
	case b == nil && c.all.tokens < 1:
		c.unlisted++
		return false
	case b == nil:
	case b.tokens < 1 || c.all.tokens < 1:
		b.left++
		return false
	default:
		b.tokens--
	}
	c.all.tokens--
	return true
}

// bucketOf returns a source's bucket; nil where there are too many.
func (c *counts) bucketOf(now time.Time, s *Source) *bucket {
	b := c.sources[*s]
	if b == nil {
		if len(c.sources) >= c.bound.sources && now.Sub(c.swept) >= time.Second {
			c.sweep(now)
		}
		if len(c.sources) >= c.bound.sources {
			return nil
		}
		fresh := full(c.bound.source, now)
		b = &fresh
		c.sources[s.clone()] = b
		return b
	}
	b.fill(c.bound.source, now)
	return b
}

// sweep returns up the buckets that are full and have nothing to tell: their sources find
// new ones that are the same.
func (c *counts) sweep(now time.Time) {
	c.swept = now
	for s, b := range c.sources {
		if b.fill(c.bound.source, now); b.left == 0 && b.tokens >= c.bound.source.burst {
			delete(c.sources, s)
		}
	}
}

// leftOut are lines that were left out of one source.
type leftOut struct {
	source Source
	lines  uint64
}

// settle returns the sources that lines were left out of, and how many lines, and begins
// to count anew.
func (c *counts) settle(now time.Time) (sources []leftOut, lines uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines, c.unlisted = c.unlisted, 0
	for s, b := range c.sources {
		if b.left > 0 {
			sources = append(sources, leftOut{s, b.left})
			lines += b.left
			b.left = 0
		}
	}
	c.sweep(now)
	return sources, lines
}
