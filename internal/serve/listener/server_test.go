package listener

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answerOK is a handler that reads nothing.
var answerOK = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })

// handshakeTimeout is the time that a handshake of TLS may take.
const handshakeTimeout = 5 * time.Second

// server is an HTTP server behind this package's listeners.
type server struct {
	address string
	secure  *tls.Config // a client's; nil over plain HTTP
}

// servers runs a handler over plain HTTP and TLS.
func servers(t *testing.T, handler http.Handler) map[string]*server {
	t.Helper()
	ours := httptest.NewUnstartedServer(nil) // for its certificate
	ours.StartTLS()
	config := ours.TLS.Clone()
	client := ours.Client().Transport.(*http.Transport).TLSClientConfig
	ours.Close()
	return map[string]*server{"http": serve(t, handler, nil, nil), "https": serve(t, handler, config, client)}
}

func serve(t *testing.T, handler http.Handler, config, client *tls.Config) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{address: l.Addr().String(), secure: client}
	listener := Unstalled(l)
	if config != nil {
		listener = TLS(listener, config, handshakeTimeout)
	} else {
		listener = Heads(listener)
	}
	hs := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 5 * time.Second, Protocols: new(http.Protocols),
	}
	hs.Protocols.SetHTTP1(true)
	hs.Protocols.SetHTTP2(true)
	hs.Protocols.SetUnencryptedHTTP2(config == nil)
	done := make(chan struct{})
	go func() { defer close(done); _ = hs.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if hs.Shutdown(ctx) != nil {
			hs.Close()
		}
		<-done
	})
	return s
}

// dial opens a connection, with TLS where the server has it. What is asked of it
// ends after 30 s.
func (s *server) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	if s.secure != nil {
		config := s.secure.Clone()
		config.ServerName = "127.0.0.1"
		conn = tls.Client(conn, config)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestTLS: HTTP/2 and HTTP/1 of a TLS listener both know that they are, and a
// client of plain HTTP is told.
func TestTLS(t *testing.T) {
	s := servers(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || !r.TLS.HandshakeComplete {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, r.Proto)
	}))["https"]
	for _, want := range []string{"HTTP/1.1", "HTTP/2.0"} {
		transport := &http.Transport{TLSClientConfig: s.secure.Clone(), Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(want == "HTTP/1.1")
		transport.Protocols.SetHTTP2(want == "HTTP/2.0")
		resp, err := (&http.Client{Transport: transport}).Get("https://" + s.address)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		transport.CloseIdleConnections()
		if resp.StatusCode != http.StatusOK || string(body) != want {
			t.Errorf("%s: %s %q", want, resp.Status, body)
		}
	}
	resp, err := http.Get("http://" + s.address)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest || string(body) != "Client sent an HTTP request to an HTTPS server.\n" {
		t.Errorf("plain HTTP: %s %q", resp.Status, body)
	}
}

// TestHandshakeThatNeverEnds: it does not hold up others, and ends after its timeout, or with the listener.
func TestHandshakeThatNeverEnds(t *testing.T) {
	s := servers(t, answerOK)["https"]
	var silent net.Conn
	for range 8 {
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		silent = conn
	}
	transport := &http.Transport{TLSClientConfig: s.secure.Clone()}
	// Less time than a handshake may take: nobody waits for the end of another one.
	resp, err := (&http.Client{Transport: transport, Timeout: handshakeTimeout * 3 / 5}).Get("https://" + s.address)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	transport.CloseIdleConnections()
	_ = silent.SetReadDeadline(time.Now().Add(2 * handshakeTimeout))
	if _, err := io.Copy(io.Discard, silent); err != nil {
		t.Errorf("a silent connection stays open: %v", err)
	}
}
