package iscsi

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// freeGuesses are the wrong CHAP answers without a wait: secrets are mistyped.
	freeGuesses = 5
	// firstGuessWait is the wait of the answer after these. Each further wrong one
	// doubles it, up to maxGuessWait.
	firstGuessWait = 500 * time.Millisecond
	maxGuessWait   = 8 * time.Second
	// guessesKept is the time after the last one when they are forgotten.
	guessesKept = 10 * time.Minute
	// maxGuessers bounds those whose wrong answers are remembered.
	maxGuessers = 4096
	// maxGuessesWaiting are the answers of one guesser that wait at once. Others are
	// refused unseen: a wrong answer has to cost its wait.
	maxGuessesWaiting = 16
	// waitingShare is the part of all connections that may wait with an answer.
	waitingShare = 4
)

var errGuesses = errors.New("too many logins wait because of wrong CHAP answers from there")

// guesses are the recent wrong CHAP answers. The next answer of the same peer waits before
// the check, right or wrong, so that hanging up early tells nothing.
type guesses struct {
	room int // answers that may wait, in all
	// log bounds the lines that wrong answers make.
	log *rate.Limiter

	mu       sync.Mutex
	guessers map[peer]*guesser
	waiting  int
}

// guesser is a peer with wrong answers.
type guesser struct {
	wrong   int
	last    time.Time
	waiting int
}

func newGuesses(connections int) guesses {
	return guesses{
		room: min(max(1, connections/waitingShare), maxGuessers/2), guessers: map[peer]*guesser{},
		log: rate.NewLimiter(complaintsPerSecond, complaintsPerSecond),
	}
}

// prove checks the answer of CHAP when it is its turn, and reports a wrong one.
func (n *negotiation) prove(keys pairs) (more pairs, err error) {
	g := &n.server.guesses
	wrong, err := g.check(n.peer(), n.pause, func() (err error) {
		more, err = n.chap.finish(keys)
		return err
	})
	if wrong == 0 {
		return more, err
	}
	if g.log.Allow() {
		n.server.log.Warn("iscsi: wrong CHAP name or secret", "initiator", n.initiator, "remote", n.remote,
			"target", n.target.IQN, "client", n.target.Client, "wrong", wrong)
	}
	if n.server.options.Hooks.Guessed != nil {
		n.server.options.Hooks.Guessed(n.loginTo(n.target.IQN), n.target.Tag, wrong)
	}
	return nil, err
}

// pause waits, unless the server is shut meanwhile. The login has as much more time.
func (c *conn) pause(d time.Duration) error {
	select {
	case <-c.server.stop:
		return ErrShutdown
	case <-time.After(d):
	}
	c.loginBy = c.loginBy.Add(d)
	c.net.SetDeadline(c.loginBy)
	return nil
}

// wider is a peer as its guesses are counted. One machine can take every address of an
// IPv6 network, the link-local ones of an interface included.
func (p peer) wider() peer {
	if !p.addr.Is6() {
		return p
	}
	network, _ := p.addr.WithZone("").Prefix(64)
	return peer{addr: network.Addr().WithZone(p.addr.Zone())}
}

// wait returns the wait of the next answer.
func (g *guesser) wait() time.Duration {
	if g == nil || g.wrong < freeGuesses {
		return 0
	}
	return min(maxGuessWait, firstGuessWait<<min(g.wrong-freeGuesses, 10))
}

// check calls look, which checks an answer, when it is its turn. pause waits. If the answer
// is wrong, check returns the number of recent wrong ones.
func (g *guesses) check(who peer, pause func(time.Duration) error, look func() error) (wrong int, err error) {
	who = who.wider()
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.guessers[who]
	if known != nil && known.waiting == 0 && time.Since(known.last) > guessesKept {
		delete(g.guessers, who)
		known = nil
	}
	if wait := known.wait(); wait > 0 {
		if known.waiting >= maxGuessesWaiting || g.waiting >= g.room {
			return 0, errGuesses
		}
		known.waiting++
		g.waiting++
		g.mu.Unlock()
		err := pause(wait)
		g.mu.Lock()
		known.waiting--
		g.waiting--
		if err != nil {
			return 0, err
		}
	}
	// Under the lock, so that the next one knows the result.
	if err := look(); !errors.Is(err, errChapRefused) {
		return 0, err
	}
	if known == nil {
		known = g.remember(who)
	}
	known.wrong++
	known.last = time.Now()
	return known.wrong, errChapRefused
}

// remember adds a guesser, if necessary in place of the one with the fewest and oldest guesses.
func (g *guesses) remember(who peer) *guesser {
	if len(g.guessers) >= maxGuessers {
		var least peer
		var found *guesser
		for other, o := range g.guessers {
			if o.waiting == 0 && (found == nil || o.wrong < found.wrong || o.wrong == found.wrong && o.last.Before(found.last)) {
				least, found = other, o
			}
		}
		delete(g.guessers, least)
	}
	known := &guesser{}
	g.guessers[who] = known
	return known
}
