package machine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/logs"
	"glowplug/internal/serve/peer"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
)

var (
	victimMAC = netaddr.MAC{0x52, 0x54, 0, 0, 0, 0x11}
	thiefMAC  = netaddr.MAC{0x52, 0x54, 0, 0, 0, 0x66}
)

// flipTable is a neighbour table of one entry, which an attacker changes at will.
type flipTable struct {
	mu    sync.Mutex
	entry peer.Neighbor
}

func (f *flipTable) Lookup(netip.Addr, string) peer.Neighbor {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.entry
}

func (f *flipTable) Refresh(addr netip.Addr, zone string) peer.Neighbor { return f.Lookup(addr, zone) }

func (f *flipTable) AddressesOf(netaddr.MAC) []netip.Addr { return nil }
func (f *flipTable) Close() error                         { return nil }

func (f *flipTable) set(mac, former netaddr.MAC) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entry = peer.Neighbor{MAC: mac, Former: former}
}

// elsewhere is a listener whose peers come from the address of the victim.
type elsewhere struct{ net.Listener }

type elsewhereConn struct{ net.Conn }

func (l elsewhere) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return elsewhereConn{conn}, err
}

func (elsewhereConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 11), Port: 4711}
}

// bulkImages have one image, of size bytes.
type bulkImages struct{ content []byte }

func (b bulkImages) Open(model.Ref, string, []string, string, *model.Host) (Image, error) {
	return &memoryImage{bytes.NewReader(b.content), &memoryImages{}, `"bulk"`}, nil
}

// decides calls a function after each decision.
type decides struct {
	*decide.Decider
	after func()
}

func (d decides) Config(req *decide.Request) decide.ConfigDecision {
	defer d.after()
	return d.Decider.Config(req)
}

// flipRig is a server with one host, whose address an attacker has taken.
type flipRig struct {
	table   *flipTable
	journal *fakeJournal
	log     *bytes.Buffer
	handler *logs.Handler
	after   func() // a decision
	answers sync.WaitGroup
	url     string
	client  *http.Client
}

// bulk is more than what connections hold before it is read: 2 MiB.
var bulk = bytes.Repeat([]byte("0123456789abcdef"), 1<<17)

func newFlipRig(t *testing.T, enforce, http2 bool) *flipRig {
	t.Helper()
	f := &flipRig{table: &flipTable{}, journal: &fakeJournal{}, log: new(bytes.Buffer), after: func() {}}
	f.table.set(victimMAC, zeroMAC)
	inv := snapshot.New(snapshot.Options{})
	item := func(key, value string) kvstore.Item {
		return kvstore.Item{Key: key, Revision: 1, Value: []byte(value)}
	}
	inv.Hosts().Load([]kvstore.Item{item("g10/victim",
		`{"spec":{"ip":"192.0.2.11","bootMACAddress":"52:54:00:00:00:11","image":"live","bootMode":"forever"}}`)})
	inv.Configs().Load([]kvstore.Item{
		{Key: "g10/small", Revision: 2, Value: storedConfig("small", "ignition", `{"default":true}`, []byte(testBody))},
		{Key: "g10/large", Revision: 3, Value: storedConfig("large", "kickstart", `{"default":true}`, bulk)},
	})
	inv.Images().Load([]kvstore.Item{item("g10/live", rackImages["g10/live"])})
	policy := decide.Policy{}
	if enforce {
		policy.Neighbors = identity.NeighborsEnforce
	}
	decider := decides{decide.New(decide.Options{Inventory: inv, Policy: policy}), func() { f.after() }}
	resolver := peer.NewResolver(peer.ResolverOptions{Table: f.table})
	f.handler = logs.NewHandler(f.log, logs.Options{})
	server := httptest.NewUnstartedServer(New(Options{
		Decider: decider, Resolver: resolver, Journal: f.journal, Enforce: enforce, Log: f.handler,
		Boot: &Boot{
			Booter: decider, Images: bulkImages{bulk}, Unknown: UnknownExit,
			URL: "http://192.0.2.1:8082", Portal: "192.0.2.1", PortalPort: 3260,
		},
	}))
	server.Listener = Coalesce(elsewhere{server.Listener})
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return resolver.ConnContext(ConnContext(ctx, conn), conn)
	}
	transport := &http.Transport{Protocols: new(http.Protocols)}
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	f.client = &http.Client{Transport: transport}
	handler := server.Config.Handler
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.answers.Add(1)
		defer f.answers.Done()
		handler.ServeHTTP(w, r)
	})
	server.Start()
	f.url = server.URL
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		if err := f.handler.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// ask makes a request and reads its answer.
func (f *flipRig) ask(t *testing.T, method, path string, header ...string) (status int, body string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(read), err
}

// changes counts the events of a change, and forgets them.
func (f *flipRig) changes() int {
	f.answers.Wait()
	f.journal.mu.Lock()
	defer f.journal.mu.Unlock()
	n := 0
	for _, reason := range f.journal.notices {
		if reason == decide.ReasonNeighborChanged {
			n++
		}
	}
	f.journal.notices = nil
	return n
}

// served returns what counts as served, and forgets it. A client can have all of an answer before it counts.
func (f *flipRig) served() []string {
	f.answers.Wait()
	f.journal.mu.Lock()
	defer f.journal.mu.Unlock()
	served := f.journal.served
	f.journal.served = nil
	return served
}

// TestNeighborChangesUnderADecision has an attacker change the neighbour entry after it was
// looked up, as while a config is rendered: over HTTP/1.1 and HTTP/2.
func TestNeighborChangesUnderADecision(t *testing.T) {
	flip := func(table *flipTable) { table.set(thiefMAC, victimMAC) }
	thereAndBack := func(table *flipTable) { table.set(victimMAC, thiefMAC) }
	for _, http2 := range []bool{false, true} {
		for _, enforce := range []bool{false, true} {
			f := newFlipRig(t, enforce, http2)
			for _, c := range []struct {
				name, method, path string
				header             []string
				flip               func(*flipTable)
				status             int
			}{
				{"a config", "GET", PathIgnition, nil, flip, 200},
				{"a config, there and back", "GET", PathIgnition, nil, thereAndBack, 200},
				{"its source", "GET", PathIgnition + "?format=raw", nil, flip, 200},
				{"a large config", "GET", PathKickstart, nil, flip, 200},
				{"its size", "HEAD", PathIgnition, nil, flip, 200},
				{"whether it is the same", "GET", PathIgnition, []string{"If-None-Match", "*"}, flip, 304},
			} {
				for _, flipped := range []bool{false, true} {
					f.client.CloseIdleConnections() // the next connection has the victim's entry
					f.table.set(victimMAC, zeroMAC)
					f.after = func() {}
					if flipped {
						f.after = func() { c.flip(f.table) }
					}
					status, events := c.status, 0
					if flipped {
						events = 1
						if enforce {
							status = 403
						}
					}
					got, body, err := f.ask(t, c.method, c.path, c.header...)
					if err != nil || got != status || got == 403 && strings.Contains(body, "{") {
						t.Errorf("%s, HTTP/2 %v, enforced %v, flipped %v: %d %.100q %v", c.name, http2, enforce, flipped, got, body, err)
					}
					if n := f.changes(); n != events {
						t.Errorf("%s, HTTP/2 %v, enforced %v, flipped %v: %d events", c.name, http2, enforce, flipped, n)
					}
					if served := f.served(); status == 403 && len(served) > 0 {
						t.Errorf("%s, HTTP/2 %v: counts as served: %q", c.name, http2, served)
					}
				}
			}
		}
	}
}

// TestNeighborChangesUnderAConnection is a connection that one machine has made and
// another one goes on with, long after the entry changed.
func TestNeighborChangesUnderAConnection(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		for _, enforce := range []bool{false, true} {
			f := newFlipRig(t, enforce, http2)
			for _, c := range []struct {
				method, path string
				header       []string
			}{
				{"GET", PathIgnition, nil},
				{"HEAD", PathIgnition, nil},
				{"GET", PathIgnition, []string{"If-None-Match", "*"}},
				{"GET", PathIPXE, nil},
				{"GET", "/iso/g10/live.iso", []string{"Range", "bytes=0-9"}},
				{"POST", PathComplete, nil},
			} {
				f.client.CloseIdleConnections()
				f.table.set(thiefMAC, zeroMAC)
				if status, _, err := f.ask(t, "GET", PathScript); status != 200 || err != nil { // it connects
					t.Fatal(status, err)
				}
				f.changes()
				f.served()
				f.table.set(victimMAC, zeroMAC)
				for range 2 {
					status, body, err := f.ask(t, c.method, c.path, c.header...)
					if err != nil || (status == http.StatusForbidden) != enforce || strings.Contains(body, "ignition\":") && enforce {
						t.Errorf("%s %s, HTTP/2 %v, enforced %v: %d %.100q %v", c.method, c.path, http2, enforce, status, body, err)
					}
					if n := f.changes(); n != 1 {
						t.Errorf("%s %s, HTTP/2 %v, enforced %v: %d events", c.method, c.path, http2, enforce, n)
					}
				}
				if served := f.served(); enforce && len(served) > 0 {
					t.Errorf("%s %s counts: %q", c.method, c.path, served)
				}
				f.client.CloseIdleConnections()
				if status, _, err := f.ask(t, c.method, c.path, c.header...); err != nil || status >= 400 || f.changes() != 0 {
					t.Errorf("%s %s, on a connection of its own: %d %v", c.method, c.path, status, err)
				}
			}
		}
	}
}

// TestAlarmInTheLog has what may be a theft stand out in the log, however the
// request was answered.
func TestAlarmInTheLog(t *testing.T) {
	f := newFlipRig(t, false, false)
	f.table.set(thiefMAC, zeroMAC)
	if status, _, err := f.ask(t, "GET", PathIgnition); status != 200 || err != nil {
		t.Fatal(status, err)
	}
	f.table.set(victimMAC, zeroMAC)
	f.client.CloseIdleConnections()
	f.after = func() { f.table.set(thiefMAC, victimMAC) }
	if status, _, err := f.ask(t, "GET", PathKickstart); status != 200 || err != nil {
		t.Fatal(status, err)
	}
	if err := f.handler.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(f.log.String(), "\n")
	for _, want := range []string{"endpoint=ignition alarm=NeighborMismatch", "endpoint=kickstart alarm=NeighborChanged"} {
		endpoint, alarm, _ := strings.Cut(want, " ")
		if !slices.ContainsFunc(lines, func(line string) bool {
			return strings.Contains(line, "level=WARN") && strings.Contains(line, endpoint) &&
				strings.Contains(line, alarm) && strings.Contains(line, "status=200")
		}) {
			t.Errorf("no warning with %s:\n%s", want, f.log.String())
		}
	}
}

// A part of an answer that cannot be written ends it.
func TestResponseBroken(t *testing.T) {
	w := &brokenWriter{header: http.Header{"Content-Length": {"4"}}}
	c := &response{ResponseWriter: w}
	c.WriteHeader(200)
	n, err := c.Write([]byte("four"))
	if n != 0 || !errors.Is(err, io.ErrClosedPipe) || !errors.Is(c.broken, io.ErrClosedPipe) {
		t.Errorf("%d, %v, %v", n, err, c.broken)
	}
}

type brokenWriter struct{ header http.Header }

func (b *brokenWriter) Header() http.Header       { return b.header }
func (b *brokenWriter) WriteHeader(int)           {}
func (b *brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
