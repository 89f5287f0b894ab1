package machine

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
	"glowplug/internal/serve/peer"
)

// countingListener counts the writes of its connections.
type countingListener struct {
	net.Listener
	mu     sync.Mutex
	writes int
}

type countingConn struct {
	net.Conn
	l *countingListener
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countingConn{c, l}, nil
}

func (c countingConn) Write(p []byte) (int, error) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.l.writes++
	return c.Conn.Write(p)
}

func TestCoalesce(t *testing.T) {
	for _, size := range []int{1, 2000, 2049, 3700, 3800, 3900, 4096, 5120, 7800, 7900, 8192, 60 << 10, 64 << 10,
		200 << 10, 2 << 20} {
		body := bytes.Repeat([]byte("x"), size)
		body[size-1] = 'y'
		config := changed(func(c *model.Config) { c.Artifact, c.Source = body, string(body); c.Revision = uint64(size) })
		boots := New(Options{
			Decider:  &fakeDecider{decision: found(config)},
			Resolver: peer.NewResolver(peer.ResolverOptions{Neighbors: identity.NeighborsOff}),
		})
		mux := http.NewServeMux()
		mux.Handle(PathIgnition, boots)
		mux.HandleFunc("/stream", func(w http.ResponseWriter, _ *http.Request) { // as a watch does
			for range 3 {
				_, _ = w.Write(body)
				_ = http.NewResponseController(w).Flush()
			}
		})
		counting := &countingListener{}
		server := httptest.NewUnstartedServer(mux)
		counting.Listener = server.Listener
		server.Listener = Coalesce(counting)
		server.Config.ConnContext = ConnContext
		server.Start()
		client := server.Client()
		client.Timeout = 20 * time.Second
		for range 3 {
			counting.mu.Lock()
			counting.writes = 0
			counting.mu.Unlock()
			resp, err := client.Get(server.URL + PathIgnition)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !bytes.Equal(got, body) || resp.Header.Get("Content-Length") != strconv.Itoa(size) {
				t.Fatalf("%d bytes: got %d, %v", size, len(got), err)
			}
			counting.mu.Lock()
			if size < 60<<10 && counting.writes != 1 {
				t.Errorf("%d bytes took %d writes", size, counting.writes)
			}
			counting.mu.Unlock()
			if resp, err = client.Get(server.URL + "/stream"); err != nil {
				t.Fatal(err)
			}
			if got, err = io.ReadAll(resp.Body); err != nil || len(got) != 3*size {
				t.Fatalf("a stream of 3 times %d bytes: got %d, %v", size, len(got), err)
			}
			resp.Body.Close()
			if resp, err = client.Get(server.URL + PathIgnition + "?format=raw"); err != nil {
				t.Fatal(err)
			}
			if got, err = io.ReadAll(resp.Body); err != nil || string(got) != config.Source {
				t.Fatalf("raw: got %d, %v", len(got), err)
			}
			resp.Body.Close()
			if resp, err = client.Head(server.URL + PathIgnition); err != nil || resp.ContentLength != int64(size) {
				t.Fatalf("HEAD: %v", err)
			}
			resp.Body.Close()
		}
		client.CloseIdleConnections()
		server.Close()
	}
}

// A client that has disconnected gets an error, and the connection holds nothing any more.
func TestCoalesceBroken(t *testing.T) {
	here, there := net.Pipe()
	there.Close()
	c := &coalescingConn{Conn: here}
	r := httptest.NewRequest("GET", PathIgnition, nil)
	w := &response{ResponseWriter: flushed{httptest.NewRecorder(), c}}
	w.writeAtOnce(r.WithContext(ConnContext(t.Context(), c)), 200, textType, []byte("config"))
	if !errors.Is(w.broken, io.ErrClosedPipe) {
		t.Errorf("the error of the connection is lost: %v", w.broken)
	}
	if _, err := c.Write([]byte("again")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("and again: %v", err)
	}
}

// flushed is an answer that is written to a connection.
type flushed struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (f flushed) Write(p []byte) (int, error) { return f.conn.Write(p) }
