package e2e

import (
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"time"
)

// TestSlowBodiesDoNotCloseTheDoor: an attacker announces bodies on as many
// connections as the server takes, and sends nothing. Machines elsewhere are
// answered all the while; without the bound of a source they are once the bodies
// have run out of time.
func TestSlowBodiesDoNotCloseTheDoor(t *testing.T) {
	needs(t)
	const all = 50
	heads := []string{"GET /api/v1/ignition", "HEAD /ipxe", "POST /api/v1/boot-complete", "GET /api/v1/namespaces",
		"POST /api/v1/namespaces", "DELETE /nowhere"}
	bodies := []string{"Content-Length: 10", "Transfer-Encoding: chunked"}
	for name, c := range map[string]struct {
		bound string
		wait  time.Duration // for the first answer
	}{
		"bounded by source": {"16", 0},
		"bounded by time":   {"0", 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, "--max-connections", strconv.Itoa(all), "--max-connections-per-source", c.bound)
			attacker := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 66)}, Timeout: 5 * time.Second}
			var attack []net.Conn
			for i := range 2 * all {
				conn, err := attacker.Dial("tcp", net.JoinHostPort(s.host, s.plain))
				if err != nil {
					continue
				}
				t.Cleanup(func() { conn.Close() })
				_, _ = io.WriteString(conn, heads[i%len(heads)]+" HTTP/1.1\r\nHost: a\r\n"+bodies[i%len(bodies)]+"\r\n\r\n")
				attack = append(attack, conn)
			}
			deadline := time.Now().Add(c.wait)
			for {
				status := getOrNothing(s.url("/api/v1/ignition")).status
				if status == 404 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("a machine elsewhere: %d, want an answer", status)
				}
			}
			for _, conn := range attack {
				_ = conn.SetReadDeadline(time.Now().Add(40 * time.Second))
				if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
					t.Fatal("a connection of the attacker is still open after 40 s")
				}
			}
		})
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
