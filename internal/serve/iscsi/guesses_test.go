package iscsi

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const (
	rightSecret = "a long secret"
	wrongSecret = "a wrong secret"
)

// locked is a server in a bubble, whose target asks for rightSecret, and what it tells.
type locked struct {
	t       *testing.T
	server  *Server
	guessed atomic.Int32
	lines   bytes.Buffer
}

// withLocked runs a test against one. Machines are known by what clients says.
func withLocked(t *testing.T, clients map[string]string, run func(*locked)) {
	synctest.Test(t, func(t *testing.T) {
		l := &locked{t: t}
		disk := newMemory(make([]byte, blockSize))
		s, err := New(Options{
			Resolve: func(login Login) (*Target, error) {
				return &Target{
					IQN: login.Target, Disk: disk, CHAP: CHAP{Username: "user", Password: rightSecret}, Tag: l,
					Client: clients[login.Remote.Addr().String()],
				}, nil
			},
			Hooks:  Hooks{Guessed: func(_ Login, tag any, _ int) { tag.(*locked).guessed.Add(1) }},
			Logger: slog.New(slog.NewTextHandler(&l.lines, nil)), MaxConnections: 400,
		})
		if err != nil {
			t.Fatal(err)
		}
		l.server = s
		defer s.Close()
		run(l)
	})
}

// login logs in from an address, and returns the status and how long that took.
func (l *locked) login(from, secret string) (status uint16, took time.Duration) {
	began := time.Now()
	c := l.connect(from)
	status, _, _ = chapLogin(c, "7", "user", secret, nil)
	c.conn.Close()
	return status, time.Since(began)
}

func (l *locked) connect(from string) *client {
	c := connect(l.t, l.server, from)
	c.conn.SetDeadline(time.Time{})
	return c
}

// guess sends an answer and disconnects without waiting for the result.
func (l *locked) guess(from string) {
	c := l.connect(from)
	_, keys, _ := c.answered("7", "user", wrongSecret, nil)
	h := newHeader(opLogin|0x40, securityToFull, 1)
	c.send(&h, keys.encode())
	c.conn.Close()
	synctest.Wait()
}

// An attacker who guesses as fast as it can, and hangs up early, gets few guesses.
func TestGuessesAreSlow(t *testing.T) {
	for name, from := range map[string]func(n int) string{
		"an address":      func(int) string { return "192.0.2.66" },
		"an IPv6 network": func(n int) string { return fmt.Sprintf("2001:db8::%x", 1+n) },
		"link-local":      func(n int) string { return fmt.Sprintf("fe80::%x%%eth0", 1+n) },
		"a known machine": func(n int) string { return fmt.Sprintf("10.6.6.%d", n%200) },
	} {
		t.Run(name, func(t *testing.T) {
			clients := map[string]string{}
			for n := range 200 {
				clients[fmt.Sprintf("10.6.6.%d", n)] = "host rack/evil"
			}
			withLocked(t, clients, func(l *locked) {
				const most = 200 // 16 answers each 8 s, and more while the wait grows
				n := 0
				for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
					l.guess(from(n))
					n++
				}
				if n := l.guessed.Load(); n < freeGuesses || n > most {
					t.Errorf("%d guesses in a minute", n)
				}
			})
		})
	}
}

// A right secret is not waited with elsewhere, and for a bounded time where guesses
// come from; another machine of the same IPv6 network that is known is elsewhere.
func TestRightSecretWhileOthersGuess(t *testing.T) {
	clients := map[string]string{"2001:db8::1": "host rack/one"}
	withLocked(t, clients, func(l *locked) {
		for range 40 {
			l.login("192.0.2.66", wrongSecret)
			l.login("2001:db8::66", wrongSecret)
			l.login("fe80::66%eth1", wrongSecret)
		}
		for _, c := range []struct {
			from string
			most time.Duration
		}{
			{"192.0.2.1", 0}, {"2001:db8::1", 0}, {"2001:db8:0:1::66", 0}, {"fe80::66%eth0", 0},
			{"192.0.2.66", maxGuessWait}, {"2001:db8::67", maxGuessWait}, {"fe80::67%eth1", maxGuessWait},
		} {
			status, took := l.login(c.from, rightSecret)
			if status != 0 || took > c.most || c.most > 0 && took == 0 {
				t.Errorf("from %s: status %04x after %v, want it within %v", c.from, status, took, c.most)
			}
		}
		time.Sleep(guessesKept + time.Minute)
		if status, took := l.login("192.0.2.66", wrongSecret); status != statusAuth || took != 0 {
			t.Errorf("after a quiet time: status %04x after %v", status, took)
		}
	})
}

// The waits are those that docs/reference/limits.md has. A right login does not make the next waits shorter, since a
// guesser may know the secret of another image; nor do some quiet minutes. A wait is no part of the time for a login.
func TestGuessWaits(t *testing.T) {
	withLocked(t, nil, func(l *locked) {
		const from = "192.0.2.66"
		for n, want := range []float64{0, 0, 0, 0, 0, 0.5, 1, 2, 4, 8, 8, 8} {
			if status, took := l.login(from, wrongSecret); status != statusAuth || took.Seconds() != want {
				t.Errorf("wrong answer %d: status %04x after %v, want %v s", 1+n, status, took, want)
			}
		}
		for _, quiet := range []time.Duration{0, 9 * time.Minute} {
			time.Sleep(quiet)
			if status, took := l.login(from, rightSecret); status != 0 || took != 8*time.Second {
				t.Errorf("a right one after %v: status %04x after %v", quiet, status, took)
			}
		}
		c := l.connect(from)
		_, keys, _ := c.answered("7", "user", rightSecret, nil)
		time.Sleep(10 * time.Second)
		if _, status, _ := c.exchange(securityToFull, keys); status != 0 {
			t.Errorf("of a slow initiator: status %04x", status)
		}
		c.conn.Close()
	})
}

// Answers that wait hold so many connections, and no more: who comes then is sent away.
func TestGuessesHoldFewConnections(t *testing.T) {
	withLocked(t, nil, func(l *locked) {
		for n := range 20 {
			for range freeGuesses {
				l.login(fmt.Sprintf("192.0.2.%d", n), wrongSecret)
			}
		}
		held := func(want int) {
			t.Helper()
			l.server.mu.Lock()
			defer l.server.mu.Unlock()
			if n := len(l.server.conns); n != want {
				t.Errorf("%d connections are held, want %d", n, want)
			}
		}
		for n := range 20 {
			for range 20 {
				l.guess(fmt.Sprintf("192.0.2.%d", n))
			}
			held(min(16*(1+n), 400/4))
		}
		if status, took := l.login("192.0.2.0", rightSecret); status != statusOverloaded || took != 0 {
			t.Errorf("among %d others: status %04x after %v", maxGuessesWaiting, status, took)
		}
		if status, took := l.login("192.0.2.100", rightSecret); status != 0 || took != 0 {
			t.Errorf("from elsewhere: status %04x after %v", status, took)
		}
		time.Sleep(time.Minute)
		held(0)
		if status, _ := l.login("192.0.2.0", rightSecret); status != 0 {
			t.Errorf("after the others: status %04x", status)
		}
	})
}

// Wrong answers are told of, without the secret.
func TestGuessesAreTold(t *testing.T) {
	withLocked(t, nil, func(l *locked) {
		for range 7 {
			l.login("192.0.2.66", wrongSecret)
		}
		l.server.Close()
		lines := l.lines.String()
		if n := strings.Count(lines, "level=WARN msg=\"iscsi: wrong CHAP name or secret\""); n != 7 || l.guessed.Load() != 7 {
			t.Errorf("%d told of, %d lines:\n%s", l.guessed.Load(), n, lines)
		}
		for _, want := range []string{"192.0.2.66", testInitiator, testTarget, "wrong=7"} {
			if !strings.Contains(lines, want) {
				t.Errorf("no %q in\n%s", want, lines)
			}
		}
		if strings.Contains(lines, rightSecret) || strings.Contains(lines, wrongSecret) {
			t.Errorf("a secret:\n%s", lines)
		}
	})
}

// Of many wrong answers each counts, and the log has ten lines a second at most.
func TestGuessesFillNoLog(t *testing.T) {
	withLocked(t, nil, func(l *locked) {
		for n := range 300 {
			l.login(fmt.Sprintf("192.0.2.%d", n%100), wrongSecret)
			time.Sleep(10 * time.Millisecond)
		}
		l.server.Close()
		// There are ten at once, and ten more in each of the three seconds.
		if n := strings.Count(l.lines.String(), "\n"); n < 30 || n > 40 || l.guessed.Load() != 300 {
			t.Errorf("%d of 300 told of, %d lines:\n%s", l.guessed.Load(), n, l.lines.String())
		}
	})
}

// However many guess, few are remembered, and those who guess most stay.
func TestGuessersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuesses(1)
		from := func(n int) peer {
			return peer{addr: netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})}
		}
		guess := func(n int) time.Duration {
			var waited time.Duration
			g.check(from(n), func(d time.Duration) error { waited = d; return nil }, func() error { return errChapRefused })
			return waited
		}
		const most, many = 4096, 1000 // many guess more than once
		for range 2 * freeGuesses {
			for n := range many {
				guess(n)
			}
		}
		for n := range most + 200 {
			guess(many + n)
			time.Sleep(time.Millisecond)
		}
		if len(g.guessers) != most {
			t.Errorf("%d are remembered", len(g.guessers))
		}
		for n := range many {
			if guess(n) == 0 {
				t.Fatal("one who guesses most is forgotten")
			}
		}
		const last = many + most + 200 - 1
		if g.guessers[from(many)] != nil || g.guessers[from(last)] == nil {
			t.Error("of those with one guess, not the oldest one is forgotten")
		}

		// One whose answer waits is not forgotten meanwhile, even if all others have guessed more.
		waits := func(time.Duration) error {
			g.mu.Lock()
			g.guessers[from(0)].wrong = 0
			g.mu.Unlock()
			guess(last + 1)
			return nil
		}
		g.check(from(0), waits, func() error { return errChapRefused })
		if g.guessers[from(0)] == nil {
			t.Error("one who waits is forgotten")
		}
		if room := newGuesses(1 << 20).room; room != 2048 {
			t.Errorf("%d may wait", room)
		}
	})
}

// A server that is shut does not wait for those who wait.
func TestShutdownWhileGuessing(t *testing.T) {
	withLocked(t, nil, func(l *locked) {
		for range 40 {
			l.login("192.0.2.66", wrongSecret)
		}
		l.guess("192.0.2.66")
		began := time.Now()
		if err := l.server.Shutdown(l.t.Context()); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
