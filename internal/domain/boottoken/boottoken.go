// Package boottoken has the tokens of boots: random texts that the boot script of a machine carries, and
// without which the machine receives neither its config nor its image. A token is not stored. It has the
// time of its issue and a keyed hash of that and of the host, so that every server with the key can check
// it, also right after a restart.
package boottoken

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash"
	"strings"
	"sync"
	"time"
)

const (
	// Length is the length of a token, in bytes. It has small letters and digits alone: the names of
	// iSCSI targets have no others.
	Length = 32
	// Placeholder takes the room of a token. Neither of its halves is a part of the other.
	Placeholder = "placeholderofthetokenofonebootxy"

	timeBytes = 5
	hashBytes = Length*5/8 - timeBytes // 120 bits
)

var encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Key makes and checks tokens. It is safe for concurrent use.
type Key struct {
	// macs have the key already: to prepare one takes longer than a hash.
	macs sync.Pool
}

// mac makes hashes, in memory of its own.
type mac struct {
	hash.Hash
	message, sum []byte
}

// NewKey returns the key with a secret, which all servers of a store share.
func NewKey(secret []byte) *Key {
	return &Key{sync.Pool{New: func() any { return &mac{Hash: hmac.New(sha256.New, secret)} }}}
}

// Token returns the token of the boot of a host, by the UID of its object, that began at a time, in whole
// seconds.
func (k *Key) Token(uid string, issued time.Time) string {
	var seconds [8]byte
	binary.BigEndian.PutUint64(seconds[:], uint64(issued.Unix()))
	var raw [timeBytes + hashBytes]byte
	copy(raw[:], seconds[8-timeBytes:])
	k.hash((*[hashBytes]byte)(raw[timeBytes:]), uid, raw[:timeBytes])
	return encoding.EncodeToString(raw[:])
}

// hash gives the hash of the encoded time of an issue.
func (k *Key) hash(result *[hashBytes]byte, uid string, at []byte) {
	m := k.macs.Get().(*mac)
	defer k.macs.Put(m)
	m.message = append(append(m.message[:0], at...), uid...) // the time has a fixed length
	m.Reset()
	m.Write(m.message)
	m.sum = m.Sum(m.sum[:0])
	copy(result[:], m.sum)
}

// Issued returns the time at which a token of a host was issued; ok is false where it is no token of it.
func (k *Key) Issued(uid, token string) (issued time.Time, ok bool) {
	if !IsToken(token) {
		return time.Time{}, false
	}
	var raw [timeBytes + hashBytes]byte
	if _, err := encoding.Decode(raw[:], []byte(token)); err != nil {
		return time.Time{}, false
	}
	var want [hashBytes]byte
	if k.hash(&want, uid, raw[:timeBytes]); !hmac.Equal(raw[timeBytes:], want[:]) {
		return time.Time{}, false
	}
	var seconds [8]byte
	copy(seconds[8-timeBytes:], raw[:])
	return time.Unix(int64(binary.BigEndian.Uint64(seconds[:])), 0).UTC(), true
}

// IsToken reports whether a text has the form of a token.
func IsToken(s string) bool {
	return len(s) == Length && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") == ""
}
