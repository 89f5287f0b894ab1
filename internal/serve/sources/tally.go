package sources

import (
	"container/list"
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"glowplug/internal/domain/netaddr"
)

const (
	// Limit is how many wrong guesses within Period bring a source to its limit, until
	// there were fewer within the last Period.
	Limit  = 20
	Period = time.Minute
	// maxKeys bounds what is counted by; what has guessed longest ago is forgotten.
	maxKeys = 1 << 16
	// siteShare is how many guesses in an IPv6 /48 are one of the site's Limit: who has
	// a /48 has 65,536 networks to guess from.
	siteShare = 16
)

// Source is where a request comes from, as far as the network tells. The zero Addr is a
// client that its proxies do not name: all of them are one source.
type Source struct {
	Addr netip.Addr
	// MAC is the entry of the neighbour table; zero: none.
	MAC netaddr.MAC
	// Known is true for a host that the network tells: what it says of itself is counted
	// by its address and card, and not by the network that it shares with others.
	Known bool
	// Claim is what a machine claims that is known by that alone, as behind NAT: it is
	// counted by this. "" elsewhere.
	Claim string
}

// kind is what a key is of.
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

// guess is when something was guessed, and a hash of what.
type guess struct {
	at   int32 // tenths of a second since the start
	what uint32
}

// period is Period in the unit of guess.at.
const period = int32(Period / (time.Second / 10))

// record is the last guesses that are counted by a key.
type record struct {
	key key
	// guesses are Limit at most; from then on the next takes the place of the one at
	// oldest.
	guesses []guess
	oldest  int
	// part counts the guesses of a site towards the next that is kept.
	part int
}

// Tally counts wrong guesses. It is safe for concurrent use and knows no clock.
type Tally struct {
	start time.Time
	seed  maphash.Seed
	// until is when no source will be at its limit any more, in the unit of guess.at.
	// Only before that anything else is looked at.
	until atomic.Int32

	mu      sync.RWMutex
	records map[key]*list.Element // of *record
	order   list.List             // who has guessed last is in front
}

// NewTally makes a Tally. No time that it is given later is before start.
func NewTally(start time.Time) *Tally {
	t := &Tally{start: start, seed: maphash.MakeSeed(), records: map[key]*list.Element{}}
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
func (t *Tally) Limited(at time.Time, s Source) bool {
	if t.quiet(at) {
		return false
	}
	now := t.tenths(at)
	keys, n := t.keys(&s)
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, k := range keys[:n] {
		if e := t.records[k]; e != nil && e.Value.(*record).limited(now) {
			return true
		}
	}
	return false
}

// Count counts a wrong guess, and reports whether it has brought the source to its
// limit. Where again is false, one that the source has made within Period already is not
// counted again.
func (t *Tally) Count(at time.Time, s Source, what string, again bool) (reached bool) {
	g := guess{at: t.tenths(at), what: uint32(maphash.String(t.seed, what))}
	keys, n := t.keys(&s)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys[:n] {
		r := t.record(k)
		if !again && r.has(g) {
			continue
		}
		before := r.limited(g.at)
		r.add(g)
		if r.limited(g.at) {
			reached = reached || !before
			t.until.Store(max(t.until.Load(), r.guesses[r.oldest].at+period))
		}
	}
	return reached
}

// record finds the record of a key, or makes it in the place of the oldest.
func (t *Tally) record(k key) *record {
	if e := t.records[k]; e != nil {
		t.order.MoveToFront(e)
		return e.Value.(*record)
	}
	if len(t.records) >= maxKeys {
		oldest := t.order.Back()
		delete(t.records, t.order.Remove(oldest).(*record).key)
	}
	r := &record{key: k}
	t.records[k] = t.order.PushFront(r)
	return r
}

// keys returns what a source is counted by.
func (t *Tally) keys(s *Source) (keys [4]key, n int) {
	add := func(k kind, of [16]byte) {
		keys[n] = key{k, of}
		n++
	}
	if s.Claim != "" {
		var of [16]byte
		binary.BigEndian.PutUint64(of[:], maphash.Comparable(t.seed, s.Addr))
		binary.BigEndian.PutUint64(of[8:], maphash.String(t.seed, s.Claim))
		add(claim, of)
		return keys, n
	}
	addr := s.Addr
	if addr.IsValid() {
		add(address, addr.As16())
	} else {
		add(address, [16]byte{})
	}
	// A link-local /64 is that of every network.
	if addr.Is6() && !addr.IsLinkLocalUnicast() && !s.Known {
		add(network, masked(addr, 64))
		add(site, masked(addr, 48))
	}
	if s.MAC != (netaddr.MAC{}) {
		var of [16]byte
		copy(of[:], s.MAC[:])
		add(card, of)
	}
	return keys, n
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
	for _, other := range r.guesses {
		if other.what == g.what && g.at-other.at <= period {
			return true
		}
	}
	return false
}

func (r *record) add(g guess) {
	if r.key.kind == site {
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
