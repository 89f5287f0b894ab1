package iscsi

import (
	"bytes"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxBinary is the longest binary value of a text, RFC 7143 section 12.1.3.
const maxBinary = 1024

var (
	errChapMethod  = errors.New("no CHAP algorithm in common")
	errChapFormat  = errors.New("CHAP answer is malformed")
	errChapRefused = errors.New("CHAP name or secret is wrong")
	errChapMutual  = errors.New("initiator wants the target to authenticate, which has no secret for it")
	errChapReflect = errors.New("initiator reflects the target's challenge")
)

// chapHashes are the known algorithms, by IANA's number.
var chapHashes = map[int]func() hash.Hash{
	5: md5.New,
	6: sha1.New,
	7: sha256.New,
	8: func() hash.Hash { return sha3.New256() },
}

// chap is one authentication: the target's challenge, and what it checks.
type chap struct {
	want      CHAP
	newHash   func() hash.Hash
	id        byte
	challenge []byte
}

// begin answers CHAP_A: the initiator's first algorithm that is known.
func (c *chap) begin(algorithms string) (pairs, error) {
	for _, name := range list(algorithms) {
		n, ok := number(name, 0, 255)
		if !ok || chapHashes[n] == nil {
			continue
		}
		c.newHash = chapHashes[n]
		random := make([]byte, 1+c.newHash().Size())
		rand.Read(random) // never fails
		c.id, c.challenge = random[0], random[1:]
		return pairs{
			{"CHAP_A", strconv.Itoa(n)},
			{"CHAP_I", strconv.Itoa(int(c.id))},
			{"CHAP_C", "0x" + hex.EncodeToString(c.challenge)},
		}, nil
	}
	return nil, errChapMethod
}

// finish checks the initiator's name and response, and returns the target's own if the
// initiator wants mutual authentication (RFC 7143, section 12.1.3).
func (c *chap) finish(text pairs) (pairs, error) {
	name, _ := text.get("CHAP_N")
	value, _ := text.get("CHAP_R")
	response, err := parseBinary(value)
	if err != nil {
		return nil, err
	}
	if c.newHash == nil {
		return nil, errChapFormat
	}
	right := subtle.ConstantTimeCompare(response, c.respond(c.id, c.want.Password, c.challenge))
	right &= subtle.ConstantTimeCompare([]byte(name), []byte(c.want.Username))
	if right != 1 {
		return nil, errChapRefused
	}
	idText, mutual := text.get("CHAP_I")
	if !mutual {
		return nil, nil
	}
	if c.want.MutualPassword == "" {
		return nil, errChapMutual
	}
	id, ok := number(idText, 0, 255)
	value, _ = text.get("CHAP_C")
	challenge, err := parseBinary(value)
	if err != nil || !ok || len(challenge) == 0 {
		return nil, errChapFormat
	}
	if bytes.Equal(challenge, c.challenge) {
		return nil, errChapReflect
	}
	answer := c.respond(byte(id), c.want.MutualPassword, challenge)
	return pairs{{"CHAP_N", c.want.MutualUsername}, {"CHAP_R", "0x" + hex.EncodeToString(answer)}}, nil
}

func (c *chap) respond(id byte, secret string, challenge []byte) []byte {
	h := c.newHash()
	h.Write([]byte{id})
	h.Write([]byte(secret))
	h.Write(challenge)
	return h.Sum(nil)
}

// parseBinary parses a binary value: 0x and hex, or 0b and base64 (RFC 7143, section 6.1).
func parseBinary(s string) ([]byte, error) {
	if len(s) > 2*maxBinary+2 || len(s) < 2 {
		return nil, errChapFormat
	}
	var b []byte
	var err error
	switch digits := s[2:]; strings.ToLower(s[:2]) {
	case "0x":
		if len(digits)%2 != 0 {
			digits = "0" + digits
		}
		b, err = hex.DecodeString(digits)
	case "0b":
		b, err = base64.StdEncoding.DecodeString(digits)
	default:
		err = errChapFormat
	}
	if err != nil || len(b) > maxBinary {
		return nil, errChapFormat
	}
	return b, nil
}

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
// the check, right or wrong, so that hanging up early reveals nothing.
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
