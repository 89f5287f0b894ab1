package natsd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRedacted: neither a password nor a token of a URL is shown.
func TestRedacted(t *testing.T) {
	for urls, want := range map[string]string{
		"nats://a:4222":                       "nats://a:4222",
		"nats://jo:geheim@a:4222,tls://b":     "nats://jo:xxxxx@a:4222,tls://b",
		"nats://geheim@a:4222":                "nats://xxxxx@a:4222",
		"tls://a,nats://jo:geh%zzeim@b":       "tls://a,(not a URL)",
		"nats://:geheim@a":                    "nats://:xxxxx@a",
		"nats://jo:geheim@a,nats://geheim@b:": "nats://jo:xxxxx@a,nats://xxxxx@b:",
	} {
		if got := Redacted(urls); got != want {
			t.Errorf("%s: %s, want %s", urls, got, want)
		}
		if HoldsSecret(urls) != strings.Contains(want, "xxxxx") {
			t.Errorf("%s: a secret: %v", urls, HoldsSecret(urls))
		}
	}
}

// TestAccess: a file that is no good is named before a connection is tried, and what
// is in it is not.
func TestAccess(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	user, password := file("user", "jo\n", 0o600), file("password", "geheim\n", 0o600)
	loose, junk, empty := file("loose", "geheim\n", 0o666), file("junk", "geheim", 0o600), file("empty", "\n", 0o600)
	missing := filepath.Join(dir, "missing")
	if options, err := (Access{UserFile: user, PasswordFile: password}).Options(nil); err != nil || len(options) != 1 {
		t.Errorf("%d %v", len(options), err)
	}
	for _, test := range []struct {
		access Access
		names  string
	}{
		{Access{UserFile: user, PasswordFile: loose}, loose},
		{Access{UserFile: user, PasswordFile: missing}, missing},
		{Access{UserFile: empty, PasswordFile: password}, empty},
		{Access{Creds: missing}, missing},
		{Access{Creds: loose}, loose},
		{Access{CAFile: missing}, missing},
		{Access{CAFile: junk}, junk},
		{Access{CertFile: junk, KeyFile: junk}, junk},
	} {
		if _, err := test.access.Options(nil); err == nil || !strings.Contains(err.Error(), test.names) ||
			strings.Contains(err.Error(), "geheim") {
			t.Errorf("%+v: %v", test.access, err)
		}
	}
}
