package kvstore

import (
	"regexp"
	"strings"
	"testing"
)

// natsKey is what NATS takes as a key.
var natsKey = regexp.MustCompile(`^[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*$`)

func TestEncodeKey(t *testing.T) {
	for _, c := range []struct{ key, encoded string }{
		{"default/host-1", "default/host-1"},
		{"default/node.example.com", "default/node.example.com"},
		{"", "="},
		{"a=b", "a=3db"},
		{"a b", "a=20b"},
		{"x*", "x=2a"},
		{"x>", "x=3e"},
		{".a..b.", "=2ea.=2eb=2e"},
		{"ü", "=c3=bc"},
	} {
		if got := EncodeKey(c.key); got != c.encoded {
			t.Errorf("EncodeKey(%q) = %q, want %q", c.key, got, c.encoded)
		}
		if got, err := decodeKey(c.encoded); err != nil || got != c.key {
			t.Errorf("decodeKey(%q) = %q, %v, want %q", c.encoded, got, err, c.key)
		}
	}
	for _, encoded := range []string{"", "a=", "a=2", "a=zz", "=61", "=3D", "a..b", "a b", "a=2e"[:3]} {
		if got, err := decodeKey(encoded); err == nil {
			t.Errorf("decodeKey(%q) = %q, want an error", encoded, got)
		}
	}
}

func FuzzKey(f *testing.F) {
	for _, seed := range []string{"", "default/host-1", "a..b", "=", "=2e", "x>", "\x00/\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		encoded := EncodeKey(key)
		if !natsKey.MatchString(encoded) {
			t.Errorf("EncodeKey(%q) = %q, which NATS does not take", key, encoded)
		}
		if back, err := decodeKey(encoded); err != nil || back != key {
			t.Errorf("%q comes back as %q, %v", key, back, err)
		}
		// Any subject that can be read has one key and one spelling.
		if back, err := decodeKey(key); err == nil && EncodeKey(back) != key {
			t.Errorf("%q and %q mean the same key", key, EncodeKey(back))
		}
	})
}

func FuzzMeta(f *testing.F) {
	f.Add("sum=1c291ca3;uid=7f0c;write=qK;expires=1735689600000")
	f.Add("sum=;uid")
	f.Fuzz(func(t *testing.T, header string) {
		meta := parseMeta(header)
		if again := parseMeta(meta.String()); !strings.ContainsAny(meta.uid, "\r\n") && again != meta {
			t.Errorf("%+v comes back as %+v", meta, again)
		}
	})
}
