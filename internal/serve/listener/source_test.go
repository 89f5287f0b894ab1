package listener

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// TestPerSource: one source opens as many connections as it may, others go on, and
// a place is free again once one is closed.
func TestPerSource(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var refused atomic.Int64
	bounded := Bounded(l, Bounds{Open: 100, PerSource: 3, Source: func(a net.Addr) string {
		host, _, _ := net.SplitHostPort(a.String())
		if host == "127.0.0.9" {
			return "" // not bounded
		}
		return host
	}, Refused: func(source string) {
		if source != "127.0.0.2" {
			t.Errorf("%s was refused", source)
		}
		refused.Add(1)
	}})
	server := &http.Server{Handler: answerOK}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(bounded) }()
	t.Cleanup(func() { server.Close(); <-done })

	// ask opens a connection from an address; it stays open. It reports whether
	// there was an answer.
	ask := func(from string) (net.Conn, bool) {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := dialer.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			return conn, false
		}
		n, err := conn.Read(make([]byte, 1))
		return conn, n == 1 && err == nil
	}
	var open []net.Conn
	for i := range 10 {
		conn, ok := ask("127.0.0.2")
		if ok != (i < 3) {
			t.Errorf("connection %d of one source: answered %v", i+1, ok)
		}
		open = append(open, conn)
	}
	for _, other := range []string{"127.0.0.3", "127.0.0.9", "127.0.0.9", "127.0.0.9", "127.0.0.9"} {
		if _, ok := ask(other); !ok {
			t.Errorf("%s was not answered", other)
		}
	}
	// A refusal is told before the next connection is accepted.
	if refused.Load() != 7 {
		t.Errorf("%d were told as refused, want 7", refused.Load())
	}
	open[0].Close()
	for !func() bool { _, ok := ask("127.0.0.2"); return ok }() { // the server may not have seen the end yet
	}
}

// TestConnectionsOfASourcePerSecond: connections are bounded in number over time as well, however short each is.
func TestConnectionsOfASourcePerSecond(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan string, 10)
	source := func(net.Addr) string { return "a" }
	bounded := Bounded(l, Bounds{
		Open: 100, Rates: NewRates(2), Source: source, Refused: func(source string) { refused <- source },
	})
	began := time.Now()
	accepted := make(chan int)
	go func() {
		n := 0
		for conn, err := bounded.Accept(); err == nil; conn, err = bounded.Accept() {
			conn.Close()
			n++
		}
		accepted <- n
	}()
	for range 10 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, conn) // until it is closed, accepted or refused
		conn.Close()
	}
	l.Close()
	most := 4 + int(2*time.Since(began).Seconds()) // what two seconds allow at once, and two a second
	if n := <-accepted; n < 4 || n > most || len(refused) != 10-n {
		t.Errorf("%d were accepted and %d refused, want 4 to %d and the rest", n, len(refused), most)
	}
}

// TestConnectionsOfAListener: a listener has no more connections than it may. The next one waits until one is closed.
func TestConnectionsOfAListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bounded := Bounded(l, Bounds{Open: 1, Source: func(net.Addr) string { return "" }})
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for conn, err := bounded.Accept(); err == nil; conn, err = bounded.Accept() {
			accepted <- conn
		}
	}()
	for range 2 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	first := <-accepted
	select {
	case <-accepted:
		t.Error("two connections are open")
	case <-time.After(50 * time.Millisecond):
	}
	first.Close()
	second := <-accepted
	bounded.Close() // while Accept waits for room
	if _, open := <-accepted; open {
		t.Error("a connection was accepted after the end")
	}
	second.Close()
}
