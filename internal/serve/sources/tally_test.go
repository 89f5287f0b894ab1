package sources

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"glowplug/internal/domain/netaddr"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func from(addr string) Guesser { return Guesser{Addr: netip.MustParseAddr(addr)} }

func mac(n byte) netaddr.MAC { return netaddr.MAC{2, 0, 0, 0, 0, n} }

// TestTally has what a source guesses in a second, and who is at the limit then.
func TestTally(t *testing.T) {
	one := func(s Guesser, n int) []Guesser {
		all := make([]Guesser, n)
		for i := range all {
			all[i] = s
		}
		return all
	}
	networks := func(n int) (all []Guesser) { // of one /48
		for i := range n {
			all = append(all, from(fmt.Sprintf("2001:db8:1:%x::1", i)))
		}
		return all
	}
	v4, cardOne := from("192.0.2.1"), Guesser{Addr: netip.MustParseAddr("192.0.2.1"), MAC: mac(1)}
	known := from("2001:db8::1")
	known.Known = true
	behind := from("192.0.2.1")
	behind.Claim = "mac 02:00:00:00:00:07"
	for _, c := range []struct {
		name          string
		guesses       []Guesser
		limited, free []Guesser
	}{
		{"fewer than the limit", one(v4, Limit-1), nil, []Guesser{v4}},
		{"an IPv4 address", one(v4, Limit), []Guesser{v4, cardOne}, []Guesser{from("192.0.2.2"), from("127.0.0.1"), {}}},
		{"an IPv6 address, and its /64", one(from("2001:db8::1"), Limit), []Guesser{from("2001:db8::1"),
			from("2001:db8::2:1")}, []Guesser{from("2001:db8:0:1::1")}},
		{"a link-local address, and no other", one(from("fe80::1"), Limit), []Guesser{from("fe80::1")},
			[]Guesser{from("fe80::2")}},
		{"a card, wherever it moves", one(cardOne, Limit), []Guesser{{Addr: netip.MustParseAddr("192.0.2.7"), MAC: mac(1)}},
			[]Guesser{{Addr: netip.MustParseAddr("192.0.2.7"), MAC: mac(2)}}},
		{"clients that their proxies do not name", one(Guesser{}, Limit), []Guesser{{}}, []Guesser{v4}},
		{"many networks of a site", networks(siteShare * Limit), []Guesser{from("2001:db8:1:ffff::1")},
			[]Guesser{from("2001:db8:2::1")}},
		{"some networks of a site", networks(siteShare*Limit - 1), nil, []Guesser{from("2001:db8:1:ffff::1")}},
		{"a known host does not limit its network", one(known, Limit), []Guesser{known, from("2001:db8::1")},
			[]Guesser{from("2001:db8::2")}},
		{"a machine behind NAT does not limit the others", one(behind, Limit), []Guesser{behind}, []Guesser{v4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tally, reached := NewTally(epoch), 0
			for i, s := range c.guesses {
				if tally.Count(epoch.Add(time.Duration(i)*time.Second/time.Duration(len(c.guesses))), s, "", true) {
					reached++
				}
			}
			for at, limited := range map[time.Duration]bool{time.Second: true, Period - time.Second: true, Period +
				2*time.Second: false} {
				for _, s := range c.limited {
					if tally.Limited(epoch.Add(at), s) != limited {
						t.Errorf("after %v %+v is limited: %v", at, s, !limited)
					}
				}
				for _, s := range c.free {
					if tally.Limited(epoch.Add(at), s) {
						t.Errorf("after %v %+v is limited", at, s)
					}
				}
			}
			if want := min(1, len(c.limited)); reached != want {
				t.Errorf("it reached the limit %d times, want %d", reached, want)
			}
		})
	}
}

// The minute is any: guesses are counted as they come, and not from the full minute.
func TestTallySlides(t *testing.T) {
	tally, s := NewTally(epoch), from("192.0.2.1")
	at := epoch
	for range 3 * Limit { // fewer than Limit within any Period
		tally.Count(at, s, "", true)
		at = at.Add(Period/Limit + 100*time.Millisecond)
		if tally.Limited(at, s) {
			t.Fatalf("limited after %v", at.Sub(epoch))
		}
	}
	for range 3 {
		tally.Count(at, s, "", true)
	}
	if !tally.Limited(at, s) || tally.Limited(at.Add(Period+time.Second), s) {
		t.Error("not limited for as long as there were so many within a minute")
	}
}

// What a known host says again and again is one guess.
func TestTallyRepeated(t *testing.T) {
	tally, s := NewTally(epoch), from("192.0.2.1")
	s.Known = true
	for range 3 * Limit {
		tally.Count(epoch, s, "uuid one", false)
		tally.Count(epoch, s, "mac two", false)
	}
	if tally.Limited(epoch, s) {
		t.Error("limited for saying the same")
	}
	for i := range Limit - 2 {
		tally.Count(epoch, s, fmt.Sprint("uuid ", i), false)
	}
	if !tally.Limited(epoch, s) {
		t.Error("not limited for saying something else each time")
	}
}

// An attacker with any number of addresses and cards makes the tally grow no further,
// and does not free the source that guessed last.
func TestTallyIsBounded(t *testing.T) {
	tally := NewTally(epoch)
	for range Limit * 2 {
		tally.Count(epoch, from("192.0.2.1"), "", true)
	}
	for i := range maxKeys + 1000 {
		if i%1000 == 0 {
			tally.Count(epoch, from("192.0.2.1"), "", true)
		}
		tally.Count(epoch, Guesser{Addr: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})}, "", true)
	}
	if n := tally.records.Len(); n != maxKeys {
		t.Errorf("%d keys; want %d", n, maxKeys)
	}
	if !tally.Limited(epoch, from("192.0.2.1")) {
		t.Error("the source that guessed last is forgotten")
	}
	for _, r := range tally.records.Values() {
		if n := len(r.guesses); n > Limit {
			t.Fatalf("%d guesses are kept of one source", n)
		}
	}
}

func TestTallyConcurrently(t *testing.T) {
	tally := NewTally(epoch)
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for i := range 2000 {
				s := Guesser{Addr: netip.AddrFrom4([4]byte{10, 0, byte(n), byte(i)}), MAC: mac(byte(i % 3))}
				tally.Count(epoch, s, "", true)
				tally.Limited(epoch, s)
			}
		})
	}
	all.Wait()
	if !tally.Limited(epoch, Guesser{MAC: mac(0)}) {
		t.Error("not limited")
	}
}

// FuzzTally compares the tally with one that keeps every guess.
func FuzzTally(f *testing.F) {
	f.Add([]byte{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 255, 255, 1})
	f.Fuzz(func(t *testing.T, steps []byte) {
		tally, at := NewTally(epoch), epoch
		guesses := map[Guesser][]time.Time{}
		within := func(s Guesser) (n int) {
			for _, g := range guesses[s] {
				if at.Sub(g) <= Period {
					n++
				}
			}
			return n
		}
		for _, step := range steps {
			s := Guesser{Addr: netip.AddrFrom4([4]byte{192, 0, 2, step & 1})}
			at = at.Add(time.Duration(step>>1) * time.Second / 10)
			before := within(s) >= Limit
			guesses[s] = append(guesses[s], at)
			if reached := tally.Count(at, s, "", true); reached != (!before && within(s) >= Limit) {
				t.Fatalf("reached: %v after %v", reached, guesses[s])
			}
			for s := range guesses {
				if got := tally.Limited(at, s); got != (within(s) >= Limit) {
					t.Fatalf("limited: %v after %v at %v", got, guesses[s], at)
				}
			}
		}
	})
}

func BenchmarkLimited(b *testing.B) {
	for _, quiet := range []bool{true, false} {
		b.Run(fmt.Sprintf("quiet=%v", quiet), func(b *testing.B) {
			tally, s := NewTally(epoch), from("192.0.2.1")
			for i := range 1000 * Limit {
				if !quiet {
					tally.Count(epoch, Guesser{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}, "", true)
				}
			}
			for range Limit {
				if !quiet {
					tally.Count(epoch, from("192.0.2.9"), "", true)
				}
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					tally.Limited(epoch, s)
				}
			})
		})
	}
}
