package sources

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"glowplug/internal/domain/netaddr"
	"glowplug/internal/limit"
)

const (
	// Limit is the number of wrong guesses within Period that brings a source to its
	// limit, until there were fewer within the last Period.
	Limit  = 20
	Period = time.Minute
	// maxKeys bounds the keys that are counted; the one with the oldest guess goes first.
	maxKeys = 1 << 16
	// siteShare is how many guesses in an IPv6 /48 are one of the site's Limit: a /48 has
	// 65,536 networks to guess from.
	siteShare = 16
)

// Guesser is where a request comes from, as far as the network shows. The zero Addr is a
// client that its proxies do not name: all of them are one source.
type Guesser struct {
	Addr netip.Addr
	// MAC is the entry of the neighbour table; zero: none.
	MAC netaddr.MAC
	// Known is true for a host that is identified by the network: its claims are counted
	// by its address and card, and not by the network that it shares with others.
	Known bool
	// Claim is the claim of a machine that is identified by that alone, as behind NAT: it
	// is counted by this. "" elsewhere.
	Claim string
}

// kind is the kind of a key.
type kind uint8

const (
	address kind = iota // the zero key: a client without an address
	network
	site
	card
	claim
)

// key is what guesses are counted by.
type key struct {
	kind kind
	of   [16]byte
}

// guess is the time of a guess, and a hash of its text.
type guess struct {
	at   int32 // tenths of a second since the start
	what uint32
}

// period is Period in the unit of guess.at.
const period = int32(Period / (time.Second / 10))

// record has the last guesses of a key.
type record struct {
	// guesses are Limit at most; then the next one replaces the one at oldest.
	guesses []guess
	oldest  int
	// part counts the guesses of a site, of which one in siteShare is kept.
	part int
}

// Tally counts wrong guesses. It is safe for concurrent use and knows no clock.
type Tally struct {
	start time.Time
	seed  maphash.Seed
	// until is when no source will be at its limit any more, in the unit of guess.at.
	// Until then the records are checked.
	until atomic.Int32

	mu      sync.RWMutex
	records limit.Table[key, *record]
}

// NewTally makes a Tally. No time of a later call may be before start.
func NewTally(start time.Time) *Tally {
	t := &Tally{
		start: start, seed: maphash.MakeSeed(), records: limit.NewTable[key](maxKeys, func() *record { return &record{} }),
	}
	t.until.Store(-1)
	return t
}

func (t *Tally) tenths(at time.Time) int32 { return int32(at.Sub(t.start) / (time.Second / 10)) }

// quiet reports whether no source is at its limit.
func (t *Tally) quiet(at time.Time) bool {
	until := t.until.Load()
	return until < 0 || t.tenths(at) > until
}

// Limited reports whether a source is at its limit: by its address or, of IPv6, its
// /64 or /48, or by its hardware address.
func (t *Tally) Limited(at time.Time, s Guesser) bool {
	if t.quiet(at) {
		return false
	}
	now, keys := t.tenths(at), t.keys(&s)
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.ContainsFunc(keys, func(k key) bool {
		r, found := t.records.Peek(k)
		return found && r.limited(now)
	})
}

// Count counts a wrong guess, and reports whether it has brought the source to its
// limit. Where again is false, one that the source has made within Period already is not
// counted again.
func (t *Tally) Count(at time.Time, s Guesser, what string, again bool) (reached bool) {
	g := guess{at: t.tenths(at), what: uint32(maphash.String(t.seed, what))}
	keys := t.keys(&s)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys {
		r := t.records.Of(k)
		if !again && r.has(g) {
			continue
		}
		before := r.limited(g.at)
		r.add(g, k.kind)
		if r.limited(g.at) {
			reached = reached || !before
			t.until.Store(max(t.until.Load(), r.guesses[r.oldest].at+period))
		}
	}
	return reached
}

// keys returns what a source is counted by.
func (t *Tally) keys(s *Guesser) []key {
	addr := s.Addr
	if s.Claim != "" {
		var of [16]byte
		binary.BigEndian.PutUint64(of[:], maphash.Comparable(t.seed, addr))
		binary.BigEndian.PutUint64(of[8:], maphash.String(t.seed, s.Claim))
		return []key{{claim, of}}
	}
	keys := []key{{kind: address}}
	if addr.IsValid() {
		keys[0].of = addr.As16()
	}
	// A link-local /64 is that of every network.
	if addr.Is6() && !addr.IsLinkLocalUnicast() && !s.Known {
		keys = append(keys, key{network, masked(addr, 64)}, key{site, masked(addr, 48)})
	}
	if s.MAC != (netaddr.MAC{}) {
		var of [16]byte
		copy(of[:], s.MAC[:])
		keys = append(keys, key{card, of})
	}
	return keys
}

func masked(addr netip.Addr, bits int) [16]byte {
	p, _ := addr.WithZone("").Prefix(bits)
	return p.Addr().As16()
}

func (r *record) limited(now int32) bool {
	return len(r.guesses) == Limit && now-r.guesses[r.oldest].at <= period
}

// has reports whether the same was guessed within Period.
func (r *record) has(g guess) bool {
	return slices.ContainsFunc(r.guesses, func(other guess) bool {
		return other.what == g.what && g.at-other.at <= period
	})
}

func (r *record) add(g guess, of kind) {
	if of == site {
		if r.part++; r.part < siteShare {
			return
		}
		r.part = 0
	}
	if len(r.guesses) < Limit {
		r.guesses = append(r.guesses, g)
		return
	}
	r.guesses[r.oldest] = g
	r.oldest = (r.oldest + 1) % Limit
}
