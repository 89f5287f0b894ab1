package iscsi

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

const (
	// maxKeys bounds the keys of one exchange; login needs about twenty.
	maxKeys = 64
	// maxKeyName is the longest name of a key, RFC 7143 section 6.1.
	maxKeyName = 63
	// maxText bounds the text that is put together from continued PDUs.
	maxText = 32 << 10
	// maxName is the longest iSCSI name, section 4.2.7.1.
	maxName = 223
)

var (
	errText    = errors.New("text is not a list of key=value")
	errTooLong = errors.New("text too long")
)

// pair is one key=value.
type pair struct{ key, value string }

// pairs is a text: the keys in their order.
type pairs []pair

// parseText parses a text.
func parseText(b []byte) (pairs, error) {
	var list pairs
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte{0})
		b = rest
		if len(line) == 0 {
			continue // padding that was counted
		}
		key, value, found := bytes.Cut(line, []byte{'='})
		if !found || len(key) == 0 || len(key) > maxKeyName {
			return nil, errText
		}
		if len(list) == maxKeys {
			return nil, errTooLong
		}
		list = append(list, pair{string(key), string(value)})
	}
	return list, nil
}

// get returns a key's value.
func (p pairs) get(key string) (string, bool) {
	for _, each := range p {
		if each.key == key {
			return each.value, true
		}
	}
	return "", false
}

// add appends a key.
func (p *pairs) add(key, value string) { *p = append(*p, pair{key, value}) }

// encode returns the text as it is sent.
func (p pairs) encode() []byte {
	var b []byte
	for _, each := range p {
		b = append(b, each.key...)
		b = append(b, '=')
		b = append(b, each.value...)
		b = append(b, 0)
	}
	return b
}

// validName reports whether a text can be an iSCSI name. It accepts the characters that
// initiators use, but none that could break a log line or a text.
func validName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || r == '=' || r == ','
	})
}

// number reads a numerical value within bounds; the protocol allows hex.
func number(s string, low, high int) (int, bool) {
	base := 10
	if cut, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		s, base = cut, 16
	}
	n, err := strconv.ParseUint(s, base, 32)
	if err != nil || int(n) < low || int(n) > high {
		return 0, false
	}
	return int(n), true
}

// list returns the elements of a value that is a list in order of preference.
func list(value string) []string { return strings.Split(value, ",") }
