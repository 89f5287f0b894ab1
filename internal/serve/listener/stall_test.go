package listener

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
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

// zeros returns a file of a size.
func zeros(t *testing.T, size int64) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFileToClientThatReadsNothingEnds(t *testing.T) {
	server, _ := pair(t, 50*time.Millisecond)
	n, err := io.Copy(server, io.LimitReader(zeros(t, 64<<20), 64<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a file to a client that reads nothing: %v after %d bytes, want a deadline that has passed", err, n)
	}
}

// TestFileToSlowClientGoesOn: each part of a file has its own time.
func TestFileToSlowClientGoesOn(t *testing.T) {
	const size, timeout = 24 << 20, 400 * time.Millisecond
	server, client := pair(t, timeout)
	go func() {
		for {
			if _, err := io.CopyN(io.Discard, client, 1<<20); err != nil {
				return
			}
			time.Sleep(40 * time.Millisecond)
		}
	}()
	began := time.Now()
	n, err := io.Copy(server, io.LimitReader(zeros(t, size), size))
	if n != size || err != nil || time.Since(began) < timeout {
		t.Errorf("%d bytes in %s: %v", n, time.Since(began), err)
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
