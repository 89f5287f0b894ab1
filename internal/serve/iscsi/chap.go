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
