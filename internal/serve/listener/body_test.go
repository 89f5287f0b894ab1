package listener

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// patience is what the tests give a body to arrive.
const patience = 300 * time.Millisecond

// readAll is a handler that reads the body, and answers with what it got.
var readAll = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestTimeout)
		return
	}
	_, _ = w.Write(body)
})

// TestBodyThatNeverComesEndsTheConnection: by the attacker's hand, for each method
// and way to announce a body, whether the handler reads it or not.
func TestBodyThatNeverComesEndsTheConnection(t *testing.T) {
	for name, handler := range map[string]http.Handler{"read": readAll, "not read": answerOK} {
		for scheme, server := range servers(t, bodies{next: handler, patience: patience, pause: time.Minute}) {
			for _, method := range []string{"GET", "HEAD", "POST", "DELETE"} {
				for announced, head := range map[string]string{
					"a length": "Content-Length: 10", "chunks": "Transfer-Encoding: chunked",
				} {
					t.Run(strings.Join([]string{name, scheme, method, announced}, ", "), func(t *testing.T) {
						t.Parallel()
						conn := server.dial(t)
						if _, err := io.WriteString(conn, method+" / HTTP/1.1\r\nHost: a\r\n"+head+"\r\n\r\n"); err != nil {
							t.Fatal(err)
						}
						reader := bufio.NewReader(conn)
						resp, err := http.ReadResponse(reader, &http.Request{Method: method})
						if err != nil {
							t.Fatal(err)
						}
						if method == "GET" && (resp.StatusCode != http.StatusOK || !resp.Close) {
							t.Errorf("%s, close: %v; want an answer, and the end", resp.Status, resp.Close)
						}
						_, _ = io.Copy(io.Discard, resp.Body)
						if _, err := reader.ReadByte(); !errors.Is(err, io.EOF) {
							t.Errorf("the connection is not closed: %v", err)
						}
					})
				}
			}
		}
	}
}

// TestBodyThatStallsEndsTheConnection: what a client sent fast before does not let it keep a
// connection for hours.
func TestBodyThatStallsEndsTheConnection(t *testing.T) {
	for scheme, server := range servers(t, bodies{next: readAll, patience: time.Hour, pause: patience}) {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			conn := server.dial(t)
			if _, err := io.WriteString(conn, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n"+
				strings.Repeat("x", 1<<20)); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusRequestTimeout {
				t.Error(resp.Status)
			}
		})
	}
}

// TestBodyByByteEndsTheConnection: a byte now and then does not keep a connection.
func TestBodyByByteEndsTheConnection(t *testing.T) {
	server := serve(t, bodies{next: readAll, patience: patience, pause: time.Minute}, nil, nil)
	conn := server.dial(t)
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(patience / 10):
				_, _ = conn.Write([]byte("x"))
			}
		}
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	message, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusRequestTimeout || strings.TrimSpace(string(message)) != errSlowBody.Error() {
		t.Errorf("%s %q", resp.Status, message)
	}
}

// TestSteadyBodyIsRead: a body that takes longer than the patience, and comes
// steadily, is read to its end; the connection then takes the next request.
func TestSteadyBodyIsRead(t *testing.T) {
	server := serve(t, bodies{next: readAll, patience: patience, pause: time.Minute}, nil, nil)
	conn := server.dial(t)
	piece := strings.Repeat("x", 1<<10)
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8192\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		time.Sleep(patience / 4)
		if _, err := io.WriteString(conn, piece); err != nil {
			t.Fatal(err)
		}
	}
	reader := bufio.NewReader(conn)
	for range 2 {
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s, %v", resp.Status, err)
		}
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestChunkedBodyEndsTheConnection: heads are not looked at after a chunked body, so
// none may follow.
func TestChunkedBodyEndsTheConnection(t *testing.T) {
	for scheme, server := range servers(t, Bodies(readAll)) {
		t.Run(scheme, func(t *testing.T) {
			conn := server.dial(t)
			const chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
			if _, err := io.WriteString(conn, chunked+"GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			reader := bufio.NewReader(conn)
			resp, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusOK || string(body) != "ok" {
				t.Errorf("%s %q", resp.Status, body)
			}
			if _, err := reader.ReadByte(); err == nil {
				t.Error("the next request was answered as well")
			}
		})
	}
}

// TestLongAnswerOutlivesTheBodysDeadline: a watch that was asked for with a body
// goes on after the body's time.
func TestLongAnswerOutlivesTheBodysDeadline(t *testing.T) {
	watch := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		select {
		case <-r.Context().Done():
			http.Error(w, "the request ended", http.StatusInternalServerError)
		case <-time.After(3 * patience):
			_, _ = io.WriteString(w, "event")
		}
	})
	for scheme, server := range servers(t, bodies{patience: patience, pause: time.Minute, next: watch}) {
		t.Run(scheme, func(t *testing.T) {
			conn := server.dial(t)
			if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%v, %v", resp, err)
			}
		})
	}
}
