package natsd

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"glowplug/internal/logs/logstest"
)

// fakeNATS is no NATS server: it announces a version, answers the handshake and nothing else. A real one of an
// earlier release is no dependency of the tests.
func fakeNATS(t *testing.T, version string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				fmt.Fprintf(conn, "INFO {\"server_id\":\"fake\",\"server_name\":\"fake\",\"version\":%q,\"proto\":1,"+
					"\"headers\":true,\"jetstream\":true,\"max_payload\":%d}\r\n", version, MaxPayload)
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if lines.Text() == "PING" {
						fmt.Fprint(conn, "PONG\r\n")
					}
				}
			}()
		}
	}()
	return "nats://" + l.Addr().String()
}

// TestOlderNATSIsRefused: a server (a fake one) of a release before the least one is refused in one sentence,
// which is in the log; others are taken.
func TestOlderNATSIsRefused(t *testing.T) {
	for version, refused := range map[string]bool{
		"2.9.10": true, "2.9.25": true, "1.4.1": true, MinVersion: false, "2.11.9": true, "2.12.0-beta.2": false, "2.15.2": false,
		"3.0.0": false, "devel": false,
	} {
		log := &logstest.Buffer{}
		nc, err := Dial(fakeNATS(t, version), slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		await := func(what string, done func() bool) {
			t.Helper()
			for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%s: %s: %v\n%s", version, what, nc.LastError(), log)
				}
			}
		}
		await("connected", nc.IsConnected)
		err = CheckServer(nc)
		if (err != nil) != refused {
			t.Errorf("%s: %v", version, err)
		}
		if refused {
			for _, want := range []string{version, "needs " + MinVersion, "update the NATS server"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			await("the log has it", func() bool { return strings.Contains(log.String(), err.Error()) })
		}
		nc.Close()
	}
}
