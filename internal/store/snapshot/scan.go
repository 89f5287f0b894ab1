package snapshot

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads the few members that are wanted out of a stored object. It
// exists for the start: encoding/json reads every value twice and takes five
// times as long. What it steps over it does not check; what it reads it reads
// as encoding/json does, but for the case of keys, which must be exact.
type scanner struct {
	data []byte
	pos  int
	err  error
}

var errSyntax = errors.New("not a JSON object of the expected shape")

func (s *scanner) fail() {
	if s.err == nil {
		s.err = fmt.Errorf("%w at byte %d", errSyntax, s.pos)
	}
	s.pos = len(s.data) // nothing more is read
}

// peek gives the next byte behind white space, 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// object walks the members of an object, or none where there is null. The loop
// body has to read or skip the value of each.
func (s *scanner) object(yield func(key string) bool) {
	s.each('{', '}', func() bool {
		key := s.text()
		if s.peek() != ':' {
			s.fail()
			return false
		}
		s.pos++
		return yield(key)
	})
}

// array walks the elements of an array, or none where there is null.
func (s *scanner) array(yield func() bool) { s.each('[', ']', yield) }

func (s *scanner) each(open, end byte, yield func() bool) {
	if s.null() {
		return
	}
	if s.peek() != open {
		s.fail()
		return
	}
	s.pos++
	if s.peek() == end {
		s.pos++
		return
	}
	for yield() && s.err == nil {
		switch s.peek() {
		case ',':
			s.pos++
		case end:
			s.pos++
			return
		default:
			s.fail()
			return
		}
	}
}

// null steps over a null.
func (s *scanner) null() bool {
	if s.peek() == 'n' && bytes.HasPrefix(s.data[s.pos:], []byte("null")) {
		s.pos += len("null")
		return true
	}
	return false
}

// token gives what stands between the quotes of a string, and whether it has
// escapes.
func (s *scanner) token() (raw []byte, escaped bool) {
	if s.peek() != '"' {
		s.fail()
		return nil, false
	}
	s.pos++
	start := s.pos
	for {
		n := bytes.IndexByte(s.data[s.pos:], '"')
		if n < 0 {
			s.fail()
			return nil, false
		}
		end := s.pos + n
		slashes := 0
		for i := end - 1; i >= start && s.data[i] == '\\'; i-- {
			slashes++
		}
		s.pos = end + 1
		if slashes%2 == 0 {
			raw = s.data[start:end]
			return raw, bytes.IndexByte(raw, '\\') >= 0
		}
	}
}

// skip steps over a value of any kind.
func (s *scanner) skip() {
	switch s.peek() {
	case '"':
		s.token()
	case '{', '[':
		s.skipNested()
	default:
		for start := s.pos; ; s.pos++ {
			if s.pos == len(s.data) || bytes.IndexByte([]byte(",]} \t\r\n"), s.data[s.pos]) >= 0 {
				if s.pos == start {
					s.fail()
				}
				return
			}
		}
	}
}

// skipNested steps over an object or array: only its brackets count.
func (s *scanner) skipNested() {
	for depth := 0; s.pos < len(s.data); {
		switch s.data[s.pos] {
		case '"':
			s.token()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.pos++
		if depth == 0 {
			return
		}
	}
	s.fail()
}

// str reads a string; null is "".
func (s *scanner) str() string {
	if s.null() {
		return ""
	}
	return s.text()
}

// text reads a string, of which null is none.
func (s *scanner) text() string {
	raw, escaped := s.token()
	if escaped {
		raw = s.unescape(raw)
	}
	return string(raw)
}

// unescape resolves the escapes of a string.
func (s *scanner) unescape(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 || n+1 >= len(raw) {
			return append(out, raw...)
		}
		out = append(out, raw[:n]...)
		c := raw[n+1]
		raw = raw[n+2:]
		switch c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, ok := hex4(raw)
			if !ok {
				s.fail()
				return nil
			}
			raw = raw[4:]
			if utf16.IsSurrogate(r) {
				low, ok := rune(0), false
				if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
					low, ok = hex4(raw[2:])
				}
				if r = utf16.DecodeRune(r, low); ok && r != utf8.RuneError {
					raw = raw[6:]
				}
			}
			out = utf8.AppendRune(out, r)
		default:
			s.fail()
			return nil
		}
	}
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(n), err == nil
}

// base64 reads a string of base64, as encoding/json writes bytes.
func (s *scanner) base64() []byte {
	if s.null() {
		return nil
	}
	raw, escaped := s.token()
	if escaped {
		raw = s.unescape(raw)
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(raw)))
	n, err := base64.StdEncoding.Decode(out, raw)
	if err != nil {
		s.fail()
		return nil
	}
	return out[:n:n]
}

// integer reads a whole number; null is 0.
func (s *scanner) integer() int64 {
	if s.null() {
		return 0
	}
	s.peek()
	start := s.pos
	for s.pos < len(s.data) && (s.data[s.pos] == '-' || s.data[s.pos] >= '0' && s.data[s.pos] <= '9') {
		s.pos++
	}
	n, err := strconv.ParseInt(string(s.data[start:s.pos]), 10, 64)
	if err != nil {
		s.fail()
	}
	return n
}

// boolean reads true or false; null is false.
func (s *scanner) boolean() bool {
	switch {
	case s.null():
	case s.peek() == 't' && bytes.HasPrefix(s.data[s.pos:], []byte("true")):
		s.pos += len("true")
		return true
	case s.peek() == 'f' && bytes.HasPrefix(s.data[s.pos:], []byte("false")):
		s.pos += len("false")
	default:
		s.fail()
	}
	return false
}

// strings reads an array of strings; null is none.
func (s *scanner) strings() []string {
	var out []string
	for range s.array {
		out = append(out, s.str())
	}
	return out
}

// stringMap reads an object of strings; null is none.
func (s *scanner) stringMap() map[string]string {
	var out map[string]string
	for key := range s.object {
		if out == nil {
			out = make(map[string]string)
		}
		out[key] = s.str()
	}
	return out
}

// end fails unless nothing is left.
func (s *scanner) end() error {
	if s.err == nil && s.peek() != 0 {
		s.fail()
	}
	return s.err
}
