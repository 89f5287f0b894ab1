package boottoken

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var at = time.Date(2026, 11, 26, 10, 0, 0, 123, time.UTC)

// other returns a token with another letter at a place.
func other(token string, place int) string {
	letter := "a"
	if token[place] == 'a' {
		letter = "b"
	}
	return token[:place] + letter + token[place+1:]
}

func TestToken(t *testing.T) {
	key := NewKey([]byte("secret"))
	token := key.Token("uid-1", at)
	if !IsToken(token) || !IsToken(Placeholder) {
		t.Fatalf("%q", token)
	}
	if issued, ok := key.Issued("uid-1", token); !ok || !issued.Equal(at.Truncate(time.Second)) {
		t.Errorf("%v %t", issued, ok)
	}
	for name, wrong := range map[string]string{
		"another host":    key.Token("uid-2", at),
		"another key":     NewKey([]byte("other")).Token("uid-1", at),
		"another time":    other(token, 7),
		"another hash":    other(token, 31),
		"shorter":         token[:31],
		"longer":          token + "a",
		"capitals":        strings.ToUpper(token),
		"nothing":         "",
		"the placeholder": Placeholder,
	} {
		if _, ok := key.Issued("uid-1", wrong); ok {
			t.Errorf("%s: %q is a token", name, wrong)
		}
	}
	if later := key.Token("uid-1", at.Add(time.Second)); later[:Length/2] == token[:Length/2] {
		t.Errorf("%s and %s are similar", token, later)
	}
}

func TestPlaces(t *testing.T) {
	token := NewKey([]byte("secret")).Token("uid-1", at)
	for _, s := range []string{"guest", "guest@0123456789ab", "iqn.2026-01.dev.glowplug:rack:guest", ""} {
		if name, got := CutPath(InPath(s, token)); name != s || got != token {
			t.Errorf("path: %q %q", name, got)
		}
		if name, got := CutTarget(strings.ToUpper(InTarget(s, token))); name != strings.ToLower(s) || got != token {
			t.Errorf("target: %q %q", name, got)
		}
		if name, got := CutPath(InPath(InPath(s, Placeholder), token)); name != s || got != token {
			t.Errorf("two tokens in a path: %q %q", name, got)
		}
		for _, s := range []string{s, s + "~x", s + ":token:x"} {
			if name, got := CutPath(s); name != s || got != "" {
				t.Errorf("%q is the path %q with %q", s, name, got)
			}
			if name, got := CutTarget(s); name != s || got != "" {
				t.Errorf("%q is the target %q with %q", s, name, got)
			}
		}
		if InPath(s, "") != s || InTarget(s, "") != s || InQuery(s, "") != s {
			t.Errorf("%q without a token changes", s)
		}
	}
}

func TestAdd(t *testing.T) {
	const token, added = Placeholder, "?token=" + Placeholder
	const url = "ignition.config.url="
	for _, c := range []struct{ arg, want string }{
		{url + "http://a/api/v1/ignition", url + "http://a/api/v1/ignition" + added},
		{url + "${glowplug}/api/v1/ignition?mac=52-54&role=",
			url + "${glowplug}/api/v1/ignition" + added + "&mac=52-54&role="},
		{"inst.ks=http://a/api/v1/kickstart", "inst.ks=http://a/api/v1/kickstart" + added},
		{`x="http://a/api/v1/kickstart more"`, `x="http://a/api/v1/kickstart` + added + ` more"`},
		{"coreos.live.rootfs_url=http://a/iso/g10/live/files/rootfs",
			"coreos.live.rootfs_url=http://a/iso/g10/live~" + token + "/files/rootfs"},
		{"inst.stage2=http://a/iso/g10/live@0123456789ab/files",
			"inst.stage2=http://a/iso/g10/live@0123456789ab~" + token + "/files"},
		{"root=live:http://a/iso/g10/live.iso?mac=1", "root=live:http://a/iso/g10/live~" + token + ".iso?mac=1"},
		{"root=live:${glowplug}/iso/g10/live.iso", "root=live:${glowplug}/iso/g10/live~" + token + ".iso"},
		{"x=http://other.example/api/v1/ignition", ""},
		{"x=http://other.example/iso/g10/live.iso", ""},
		{"x=http://other.example/?to=http://a/api/v1/ignition", ""},
		{"x=other.example?to=http://a/api/v1/ignition", ""},
		{"x=http://other.example/http://a/iso/g10/live.iso", ""},
		{"x=http://other.example/${glowplug}/iso/g10/live.iso", ""},
		{"x=http://a/api/v1/ignitionconfigs", ""},
		{"x=http://a/api/v1/ignition/sub", ""},
		{"x=/iso/g10/live.iso", ""},
		{"x=http://a/iso/g10", ""},
		{"ip=dhcp", ""},
	} {
		arg, want := c.arg, c.want
		if want == "" {
			want = arg
		}
		given := []string{arg}
		if again := Add([]string{addToImage(arg, "http://a"+imagePath, token)}, "http://a", token); again[0] != want {
			t.Errorf("%s: an image has two tokens: %s", arg, again)
		}
		if got := Add(given, "http://a", token); !slices.Equal(got, []string{want}) || given[0] != arg {
			t.Errorf("%s\n got %s\nwant %s", arg, got, want)
		}
	}
	for _, arg := range []string{"x=http://other.example/api/v1/ignition", "x=/iso/g10/live.iso"} {
		if got := Add([]string{arg}, "", token); got[0] != arg {
			t.Errorf("where the URL of this server is not known: %s", got)
		}
	}
}

func TestHide(t *testing.T) {
	for path, want := range map[string]string{
		"/iso/g10/live~" + Placeholder + ".iso":          "/iso/g10/live.iso",
		"/iso/g10/live@01~" + Placeholder + "/files/a~b": "/iso/g10/live@01/files/a~b",
		"/iso/g10/live/files/a~b":                        "/iso/g10/live/files/a~b", "/ipxe": "/ipxe", "~": "~",
	} {
		if got := Hide(path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func BenchmarkToken(b *testing.B) {
	key := NewKey([]byte("secret"))
	token := key.Token("uid-1", at)
	b.Run("make", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			key.Token("uid-1", at)
		}
	})
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			key.Issued("uid-1", token)
		}
	})
}
