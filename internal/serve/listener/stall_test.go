package listener

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// pair returns both ends of a connection over a listener that ends stalled writes.
func pair(t *testing.T, timeout time.Duration) (server, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	server = stallConn{server, timeout}
	t.Cleanup(func() { client.Close(); server.Close() })
	return server, client
}

func TestWriteToClientThatReadsNothingEnds(t *testing.T) {
	server, _ := pair(t, 50*time.Millisecond)
	_, err := server.Write(make([]byte, 64<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("64 MiB to a client that reads nothing: %v, want a deadline that has passed", err)
	}
}

func TestWritesAfterALongPauseGoOn(t *testing.T) {
	server, client := pair(t, 50*time.Millisecond)
	go func() { _, _ = io.Copy(io.Discard, client) }()
	for range 3 {
		if _, err := server.Write([]byte("event")); err != nil {
			t.Fatalf("after a pause longer than the deadline: %v", err)
		}
		time.Sleep(80 * time.Millisecond)
	}
}
