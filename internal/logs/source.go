package logs

import (
	"maps"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"glowplug/internal/domain/netaddr"
)

// Kind is the outcome of a request. The lines of each kind have their own limits.
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
	// Library is what a library logs about requests.
	Library
	kinds
)

// String is the kind's name in the log and in the metric.
func (k Kind) String() string {
	return [kinds]string{"known", "served", "refused", "written", "library"}[k]
}

// Source is what lines are counted by. Fields that are not known are zero.
type Source struct {
	Kind Kind
	// Namespace and Name are a host's; Name alone is a user's, or that of a library.
	Namespace, Name string
	// Addr is the source of the client's address: see netaddr.Source.
	Addr netip.Addr
	MAC  netaddr.MAC
}

// String names the source in the log.
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

// clone returns a source that keeps no request in memory.
func (s Source) clone() Source {
	s.Namespace, s.Name = strings.Clone(s.Namespace), strings.Clone(s.Name)
	return s
}

// Stranger returns the source of a stranger: its hardware address where that is known,
// since one card can have many addresses, else its address.
func Stranger(kind Kind, addr netip.Addr, mac netaddr.MAC) Source {
	if mac != (netaddr.MAC{}) {
		return Source{Kind: kind, MAC: mac}
	}
	return Source{Kind: kind, Addr: netaddr.Source(addr)}
}

// bucket limits the lines of one source, and counts those that were left out.
type bucket struct {
	*rate.Limiter
	left uint64
}

// counts are the buckets of a kind.
type counts struct {
	bound bound

	mu      sync.Mutex
	all     *rate.Limiter
	sources map[Source]*bucket
	swept   time.Time
	// unlisted are the lines left out of sources without a bucket of their own.
	unlisted uint64
}

// allow reports whether a source may write a line, and counts the line.
func (c *counts) allow(now time.Time, s *Source) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	spare := c.all.TokensAt(now) >= 1
	switch b := c.bucketOf(now, s); {
	case b != nil && !(spare && b.AllowN(now, 1)):
		b.left++
		return false
	case !spare:
		c.unlisted++
		return false
	}
	return c.all.AllowN(now, 1)
}

// bucketOf returns a source's bucket; nil where there are too many.
func (c *counts) bucketOf(now time.Time, s *Source) *bucket {
	if b := c.sources[*s]; b != nil {
		return b
	}
	if len(c.sources) >= c.bound.sources && now.Sub(c.swept) >= time.Second {
		c.sweepLocked(now)
	}
	if len(c.sources) >= c.bound.sources {
		return nil
	}
	b := &bucket{Limiter: c.bound.source.limiter()}
	c.sources[s.clone()] = b
	return b
}

// sweepLocked deletes the buckets that are full and have nothing to report: their sources
// get equal ones.
func (c *counts) sweepLocked(now time.Time) {
	c.swept = now
	maps.DeleteFunc(c.sources, func(_ Source, b *bucket) bool {
		return b.left == 0 && b.TokensAt(now) >= float64(c.bound.source.burst)
	})
}

// leftOut are lines that were left out of one source.
type leftOut struct {
	source Source
	lines  uint64
}

// report returns the sources whose lines were left out and the number of all lines that
// were, and sets the counts to zero.
func (c *counts) report(now time.Time) (sources []leftOut, lines uint64) {
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
	c.sweepLocked(now)
	return sources, lines
}
