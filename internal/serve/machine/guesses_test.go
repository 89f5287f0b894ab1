package machine

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/logs"
	"glowplug/internal/serve/peer"
	"glowplug/internal/serve/sources"
)

// neighbours is a neighbour table.
type neighbours map[string]netaddr.MAC

func (n neighbours) Lookup(addr netip.Addr, _ string) peer.Neighbor {
	return peer.Neighbor{MAC: n[addr.String()]}
}
func (n neighbours) Refresh(addr netip.Addr, zone string) peer.Neighbor { return n.Lookup(addr, zone) }
func (n neighbours) AddressesOf(mac netaddr.MAC) (addresses []netip.Addr) {
	for _, addr := range slices.Sorted(maps.Keys(n)) {
		if n[addr] == mac {
			addresses = append(addresses, netip.MustParseAddr(addr))
		}
	}
	return addresses
}
func (neighbours) Close() error { return nil }

// street is a server that is asked from any address, without a network between: its
// clock is that of a bubble.
type street struct {
	t       *testing.T
	server  *Server
	journal *fakeJournal
	metrics *prometheus.Registry
	log     bytes.Buffer
	handler *logs.Handler
	table   neighbours
	believe bool
}

func newStreet(t *testing.T, policy decide.Policy) *street {
	t.Helper()
	s := &street{t: t, journal: &fakeJournal{}, metrics: prometheus.NewRegistry(), table: neighbours{}}
	s.handler = logs.NewHandler(&s.log, logs.Options{Interval: time.Hour})
	b, _ := rackBoot(t, policy)
	s.server = New(Options{
		Decider: b.Booter.(*decide.Decider), Boot: b, Journal: s.journal, Log: s.handler, Registerer: s.metrics,
		Resolver: peer.NewResolver(peer.ResolverOptions{
			Table: s.table, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("198.51.100.1/32")},
		}),
		Sources: sources.New(sources.Options{Notice: s.journal.Notice, Logger: slog.New(s.handler), Registerer: s.metrics}),
		Believe: func(*http.Request) bool { return s.believe },
	})
	t.Cleanup(func() { _ = s.handler.Close() })
	return s
}

// ask returns the whole answer, as whoever asks from an address sees it.
func (s *street) ask(from, path string, header ...string) (status int, whole string) {
	s.t.Helper()
	method := http.MethodGet
	if strings.HasPrefix(path, PathComplete) {
		method = http.MethodPost
	}
	req := httptest.NewRequest(method, path, nil)
	req.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(from), 40000).String()
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, req)
	return w.Code, fmt.Sprint(w.Code, w.Header(), w.Body)
}

func (s *street) want(status int, from, path string, header ...string) {
	s.t.Helper()
	if got, whole := s.ask(from, path, header...); got != status {
		s.t.Errorf("%s from %s: %s; want %d", path, from, whole, status)
	}
}

// noticed counts events with a reason.
func (s *street) noticed(reason string) (n int) {
	for _, r := range s.journal.notices {
		if r == reason {
			n++
		}
	}
	return n
}

// list asks for names and says which of them give themselves away by their answer: those
// whose answer is not the last one's.
func (s *street) list(from string, paths []string) (told []string) {
	answers := make([]string, len(paths))
	for i, path := range paths {
		_, answers[i] = s.ask(from, path)
	}
	for i, a := range answers {
		if a != answers[len(answers)-1] {
			told = append(told, paths[i])
		}
	}
	return told
}

// names are paths of which every second is of something that exists.
func names(n int, format string, existing ...string) []string {
	paths := make([]string, n)
	for i := range paths {
		name := fmt.Sprintf("nobody-%d", i)
		if i%2 == 0 {
			name = existing[i/2%len(existing)]
		}
		paths[i] = fmt.Sprintf(format, name)
	}
	return paths
}

const stranger = "192.0.2.66"

// TestHostsCannotBeListed has a stranger guess a thousand host names.
func TestHostsCannotBeListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, decide.Policy{})
		s.table[stranger] = netaddr.MAC{2, 0, 0, 0, 0, 0x66}
		paths := names(1000, PathIgnition+"?hostname=%s", "live", "web", "disk", "router")
		if told := s.list(stranger, paths); !slices.Equal(told, paths[:sources.Limit]) {
			t.Errorf("%d answers told of names, want the first %d: %v", len(told), sources.Limit, told)
		}
		_, answer := s.ask(stranger, paths[0])
		if !strings.HasPrefix(answer, "503 ") || !strings.Contains(answer, "Retry-After") || strings.Contains(answer,
			"live") {
			t.Errorf("the answer: %s", answer)
		}
		// The same at every endpoint, by every claim, and with another address.
		s.table["192.0.2.67"] = s.table[stranger]
		for _, path := range []string{PathIgnition, PathKickstart, PathIPXE, PathComplete, PathISO + "g10/live.iso"} {
			for _, claim := range []string{"hostname=live", "hostname=nobody", "mac=52-54-00-00-00-02", "mac=02-00-00-00-00-99",
				"ip=127.0.0.1", "role=worker",
				"uuid=4c4c4544-0042-3510-8056-b4c04f4e3101", "uuid=4c4c4544-0042-3510-8056-b4c04f4e3199"} {
				if _, got := s.ask(stranger, path+"?"+claim); got != answer {
					t.Errorf("%s?%s: %s", path, claim, got)
				}
			}
		}
		s.want(503, "192.0.2.67", paths[0])
		// Others go on, and so do requests that claim nothing.
		s.want(403, "192.0.2.68", paths[0])
		s.want(404, "192.0.2.68", paths[1])
		s.want(200, "127.0.0.1", PathIPXE+"?uuid=4c4c4544-0042-3510-8056-b4c04f4e3101")
		s.want(404, stranger, PathIgnition)
		s.want(200, stranger, PathIPXE)
		s.believe = true
		s.want(404, stranger, PathIgnition+"?hostname=live") // which has no config
		s.believe = false
		if n := s.noticed(decide.ReasonClaimsLimited); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
		_ = s.handler.Close()
		if n := strings.Count(s.log.String(), "has reached its limit of guesses"); n != 1 {
			t.Errorf("%d lines in the log, want 1", n)
		}
		limited := 1000 - sources.Limit + 1 + 5*8 + 1
		want := fmt.Sprintf(`# HELP glowplug_boot_limited_requests_total Requests and iSCSI logins refused `+
			`without a look-up, since their source had guessed too many claims or images.
# TYPE glowplug_boot_limited_requests_total counter
glowplug_boot_limited_requests_total{of="claims"} %d
glowplug_boot_limited_requests_total{of="images"} 0
`, limited)
		if err := testutil.GatherAndCompare(s.metrics, strings.NewReader(want),
			"glowplug_boot_limited_requests_total"); err != nil {
			t.Error(err)
		}

		time.Sleep(sources.Period + time.Second)
		s.want(403, stranger, paths[0])
		s.want(404, stranger, paths[1])
	})
}

// TestCredentialCountsWithoutClaim: a caller with a credential reads every image and is no
// unknown machine, whether or not the request claims an identity.
func TestCredentialCountsWithoutClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, decide.Policy{})
		for _, claim := range []string{"", "?hostname=nobody"} {
			s.believe = false
			s.want(403, stranger, PathISO+"g10/private.iso"+claim)
			if s.want(404, stranger, PathIgnition+claim); len(s.journal.unknown) == 0 {
				t.Errorf("%q without a credential: no unknown machine", claim)
			}
			s.journal.unknown = nil
			s.believe = true
			s.want(200, stranger, PathISO+"g10/private.iso"+claim)
			if s.want(404, stranger, PathIgnition+claim); len(s.journal.unknown) > 0 {
				t.Errorf("%q with a credential: an unknown machine", claim)
			}
		}
	})
}

// A host that guesses is told no more than a stranger, and boots all the same.
func TestKnownHostCannotList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, decide.Policy{})
		const reader = "127.0.0.2"
		for range 3 * sources.Limit { // what it lacks in its object it may say again and again
			s.want(200, reader, PathIPXE+"?uuid=4c4c4544-0042-3510-8056-b4c04f4e3177&mac=52-54-00-00-00-0a")
		}
		paths := names(1000, PathIPXE+"?hostname=%s", "live", "web", "disk", "router")
		if told := s.list(reader, paths); len(told) >= sources.Limit {
			t.Errorf("%d answers told of names: %v", len(told), told)
		}
		s.want(200, reader, PathIPXE)
		s.want(200, reader, PathIPXE+"?mac=52-54-00-00-00-0a&hostname=reader&ip="+reader)
		s.want(200, reader, PathISO+"g10/live.iso?mac=52-54-00-00-00-0a")
		s.want(503, reader, PathIPXE+"?mac=52-54-00-00-00-0a&role=worker")
		s.want(503, reader, PathIPXE+"?mac=52-54-00-00-00-0a&hostname=live")
		s.want(503, reader, PathIPXE+"?mac=52-54-00-00-00-0a&hostname=nobody")
	})
}

// Machines behind NAT say which they are, and a UUID that nobody knows: each is
// counted for itself, and one that guesses does not keep the others from booting.
func TestNATIsNotLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, decide.Policy{})
		const nat = "203.0.113.7"
		boots := func(status, first int) {
			t.Helper()
			for i := first; i < natHosts; i++ {
				s.want(status, nat, fmt.Sprintf("%s?mac=52:54:00:00:01:%02x&uuid=4c4c4544-0042-3510-8056-b4c04f4e3%03d", PathIPXE,
					i, i))
			}
		}
		boots(200, 0)
		boots(200, 0)
		for i := range 3 * sources.Limit {
			s.ask(nat, fmt.Sprintf("%s?mac=52:54:00:00:01:00&hostname=nobody-%d", PathIPXE, i))
		}
		s.want(503, nat, PathIPXE+"?mac=52:54:00:00:01:00&hostname=nobody")
		s.want(503, nat, PathIPXE+"?mac=52:54:00:00:01:00&hostname=live")
		boots(200, 1)
		if n := s.noticed(decide.ReasonClaimsLimited); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
	})
}

// The clients of a proxy are counted by their own addresses, and the strangers in an
// IPv6 network together.
func TestSourcesOfClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, decide.Policy{})
		const proxy = "198.51.100.1"
		guess := func(from string, header ...string) {
			for i := range sources.Limit {
				s.ask(from, fmt.Sprintf("%s?hostname=nobody-%d", PathIgnition, i), header...)
			}
		}
		claim := PathIgnition + "?hostname=live"
		guess(proxy, "X-Forwarded-For", stranger)
		s.want(503, proxy, claim, "X-Forwarded-For", stranger)
		s.want(503, stranger, claim)
		s.want(403, proxy, claim, "X-Forwarded-For", "192.0.2.7")
		s.want(403, proxy, claim)
		guess("2001:db8::1")
		s.want(503, "2001:db8::2", claim)
		s.want(403, "2001:db8:0:1::1", claim)
		// A host of that network boots, whatever its object lacks, unless it guesses itself.
		const six, boots = "2001:db8::5", PathIPXE + "?mac=52-54-00-00-00-0b&uuid=4c4c4544-0042-3510-8056-b4c04f4e3199"
		s.want(200, six, boots)
		s.want(503, "2001:db8::6", boots)
		guess(six)
		s.want(503, six, boots)
		s.want(200, six, PathIPXE+"?mac=52-54-00-00-00-0b")
		guess("127.0.0.9")
		s.want(503, "127.0.0.9", claim)
		s.want(403, "127.0.0.10", claim)
		for _, mode := range []identity.Mode{identity.Trust, identity.Deny} { // nothing is refused or ignored
			s := newStreet(t, decide.Policy{Claims: mode})
			for range 3 * sources.Limit {
				s.want(404, stranger, PathIgnition+"?hostname=nobody")
			}
		}
	})
}

// TestImagesCannotBeListed has strangers and hosts guess paths of images.
func TestImagesCannotBeListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 20 // docs/internals/security.md has it
		s := newStreet(t, decide.Policy{})
		for n, format := range []string{PathISO + "g10/%s.iso", PathISO + "g10/%s/files/images/rootfs.img"} {
			from := fmt.Sprintf("192.0.2.%d", n+1)
			paths := names(1000, format, "locked")
			if told := s.list(from, paths); !slices.Equal(told, paths[:limit]) {
				t.Errorf("%d answers told of images, want the first %d: %v", len(told), limit, told)
			}
			s.want(503, from, PathISO+"g10/live.iso") // which it could have had
			s.want(200, from, PathIPXE)
			s.want(404, from, PathIgnition+"?hostname=nobody")
		}
		s.want(200, stranger, PathISO+"g10/live.iso")
		const reader = "127.0.0.2"
		for range 2 * sources.Limit { // no guesses: what it may read whole is no secret
			s.want(404, reader, PathISO+"g10/live/files/none")
			s.want(404, stranger, PathISO+"g10/live/files/none")
		}
		for _, path := range names(2*sources.Limit, PathISO+"g10/%s.iso", "locked") {
			s.ask(reader, path)
		}
		s.want(503, reader, PathISO+"g10/locked.iso")
		s.want(503, reader, PathISO+"g10/none.iso")
		s.want(200, reader, PathISO+"g10/live.iso")
		s.believe = true
		s.want(404, reader, PathISO+"g10/none.iso")
		for range 2 * sources.Limit {
			s.want(404, "192.0.2.9", PathISO+"g10/none.iso")
		}
		s.believe = false
		s.want(404, "192.0.2.9", PathISO+"g10/none.iso")
		if n := s.noticed(decide.ReasonImagesLimited); n != 3 {
			t.Errorf("%d events, want one a source", n)
		}
		time.Sleep(59 * time.Second)
		s.want(503, reader, PathISO+"g10/none.iso")
		time.Sleep(2 * time.Second)
		s.want(404, reader, PathISO+"g10/none.iso")
	})
}

// explain is for who may know all: it counts nothing.
func TestExplainIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, decide.Policy{})
		decider := s.server.opts.Decider.(*decide.Decider)
		explain := Explain(decider, s.server.opts.Resolver.(*peer.Resolver), func() bool { return true }, false)
		for i := range 3 * sources.Limit {
			req := httptest.NewRequest(http.MethodGet, fmt.Sprintf("/api/v1/explain?hostname=nobody-%d", i), nil)
			req.RemoteAddr = stranger + ":40000"
			w := httptest.NewRecorder()
			if explain.ServeHTTP(w, req); w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		s.want(403, stranger, PathIgnition+"?hostname=live")
	})
}
