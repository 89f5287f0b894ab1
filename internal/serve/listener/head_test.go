package listener

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestHeads: which requests end a connection, alone and behind others.
func TestHeads(t *testing.T) {
	const host = "Host: a\r\n"
	const post, five, chunked = "POST / HTTP/1.1\r\n", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"
	for name, c := range map[string]struct {
		request   string
		ambiguous bool
	}{
		"no body":                   {"GET / HTTP/1.1\r\n" + host + "\r\n", false},
		"a length":                  {post + five + "\r\nhello", false},
		"chunked":                   {post + chunked + "\r\n0\r\n\r\n", false},
		"both":                      {post + five + chunked + "\r\n0\r\n\r\n", true},
		"both, the other way round": {post + chunked + host + five + "\r\n0\r\n\r\n", true},
		"both, in another case":     {post + "content-LENGTH:5\r\ntransfer-encodinG:chunked\r\n\r\n0\r\n\r\n", true},
		"both, and no carriage":     {"POST / HTTP/1.1\nContent-Length: 5\nTransfer-Encoding: chunked\n\n0\n\n", true},
		"both, and no length":       {post + "Content-Length:\r\n" + chunked + "\r\n0\r\n\r\n", true},
		"both, behind a long line": {"GET /" + strings.Repeat("a", 5000) + " HTTP/1.1\r\nX: " + strings.Repeat("b", 5000) +
			"\r\n" + five + chunked + "\r\n", true},
		"chunked in HTTP/1.0":         {"POST / HTTP/1.0\r\n" + chunked + "\r\n0\r\n\r\n", true},
		"a folded line":               {post + "X: a\r\n " + five + "\r\n", true},
		"a length that is none":       {post + "Content-Length: 5x\r\n\r\nhello", true},
		"a length behind many spaces": {post + "Content-Length:" + strings.Repeat(" ", 200) + "5\r\n\r\nhello", false},
		"chunked after a long path": {"POST /" + strings.Repeat("a", 500) + " HTTP/1.1\r\n" + chunked + "\r\n0\r\n\r\n",
			false},
		"both in a body": {post + "Content-Length: 54\r\n\r\n\r\n" + five + chunked + "\r\n\r\n\r\n", false},
		"HTTP/2":         {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + five + chunked + "\r\n", false},
	} {
		for before, first := range map[string]string{"alone": "", "after a request": "GET / HTTP/1.1\r\n" + host + "\r\n",
			"after a body": "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"} {
			t.Run(name+", "+before, func(t *testing.T) {
				if name == "HTTP/2" && first != "" {
					return // it begins a connection
				}
				for _, size := range []int{1, 2, 7, 1 << 20} {
					if good := feed([]byte(first+c.request), size); (good < len(first+c.request)) != c.ambiguous {
						t.Errorf("in pieces of %d bytes: %d of %d are passed on", size, good, len(first+c.request))
					} else if c.ambiguous && good < len(first) {
						t.Errorf("in pieces of %d bytes: the request before is held back, too", size)
					}
				}
			})
		}
	}
}

// feed returns how much of what is read, in pieces of a size, is passed on.
func feed(data []byte, size int) int {
	var h heads
	passed := 0
	for piece := range slices.Chunk(data, size) {
		good := h.check(piece)
		passed += good
		if good < len(piece) {
			break
		}
	}
	return passed
}

var bothFields = regexp.MustCompile(`(?im)^content-length[ \t]*:`)

// FuzzHeads: net/http never sees a request with both fields, wherever the reads end.
func FuzzHeads(f *testing.F) {
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"+
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 3)
	f.Add([]byte("GET / HTTP/1.0\nTransfer-Encoding: chunked\n\nGET / HTTP/1.1\nHost: a\n\n"), 100)
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nX: y\r\n Content-Length: 3\r\nContent-Length:\r\n\t7\r\n\r\n"), 1)
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\nGET"), 4)
	f.Add([]byte("POST / HTTP/1.1\r\r\nTransfer-Encoding: chunked\r\n\r\n"), 1)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		size = max(1, min(size, 1<<16))
		passed := feed(data, size)
		if whole := feed(data, 1<<20); whole != passed {
			t.Fatalf("in pieces of %d bytes %d are passed on, at once %d", size, passed, whole)
		}
		source := bytes.NewReader(data[:passed])
		reader := bufio.NewReader(source)
		at := func() int { return passed - source.Len() - reader.Buffered() }
		for {
			from := at()
			r, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			head := data[from:at()]
			chunked := len(r.TransferEncoding) > 0
			if chunked && bothFields.Match(head) {
				t.Fatalf("net/http is given a head with both fields: %q", head)
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil || chunked {
				return // the connection ends after a chunked body
			}
		}
	})
}

// TestAmbiguousHeadIs400: by the attacker's hand, over plain HTTP and TLS, and the
// same connection's earlier request is answered.
func TestAmbiguousHeadIs400(t *testing.T) {
	for name, server := range servers(t, answerOK) {
		t.Run(name, func(t *testing.T) {
			conn := server.dial(t)
			_, err := io.WriteString(conn, "GET /first HTTP/1.1\r\nHost: a\r\n\r\n"+
				"POST /second HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
			if err != nil {
				t.Fatal(err)
			}
			reader := bufio.NewReader(conn)
			for _, want := range []int{http.StatusOK, http.StatusBadRequest} {
				resp, err := http.ReadResponse(reader, nil)
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode != want {
					t.Errorf("%s, want %d", resp.Status, want)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
			}
			if _, err := reader.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("the connection is not closed: %v", err)
			}
		})
	}
}
