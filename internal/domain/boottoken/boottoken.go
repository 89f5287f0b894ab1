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

// NewKey returns the key with a secret, which all servers of a store share.
func NewKey(secret []byte) *Key {
	return &Key{sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}}
}

// Token returns the token of the boot of a host, by the UID of its object, that began at a time, in whole
// seconds.
func (k *Key) Token(uid string, issued time.Time) string {
	var seconds [8]byte
	binary.BigEndian.PutUint64(seconds[:], uint64(issued.Unix()))
	at := seconds[8-timeBytes:]
	return encoding.EncodeToString(append(at[:timeBytes:timeBytes], k.hash(uid, at)...))
}

// hash returns the hash of the encoded time of an issue.
func (k *Key) hash(uid string, at []byte) []byte {
	mac := k.macs.Get().(hash.Hash)
	defer k.macs.Put(mac)
	mac.Reset()
	mac.Write(at) // of a fixed length
	mac.Write([]byte(uid))
	return mac.Sum(nil)[:hashBytes]
}

// Issued returns the time at which a token of a host was issued; ok is false where it is no token of it.
func (k *Key) Issued(uid, token string) (issued time.Time, ok bool) {
	raw, err := encoding.DecodeString(token)
	if err != nil || !IsToken(token) {
		return time.Time{}, false
	}
	at := raw[:timeBytes]
	if !hmac.Equal(raw[timeBytes:], k.hash(uid, at)) {
		return time.Time{}, false
	}
	seconds := binary.BigEndian.Uint64(append(make([]byte, 8-timeBytes), at...))
	return time.Unix(int64(seconds), 0).UTC(), true
}

// IsToken reports whether a text has the form of a token.
func IsToken(s string) bool {
	return len(s) == Length && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") == ""
}
