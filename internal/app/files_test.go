package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPrivateFilesAreNoAssets: a folder whose files everybody may read holds no secret of
// the server, also by a link.
func TestPrivateFilesAreNoAssets(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"srv/assets", "lib/glowplug/pki", "lib/glowplug/assets", "lib/glowplug-too", "isos"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "lib"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	s := settings{Options: Options{
		DataDir: dir + "/lib/glowplug", TLSKey: dir + "/etc/tls.key", TokenAuthFile: dir + "/srv/etc/tokens", ISODir: dir + "/isos",
	}}
	for folder, private := range map[string]bool{
		"srv/assets": false, "lib/glowplug/assets": false, "lib/glowplug-too": false,
		"lib": true, "lib/glowplug": true, "lib/glowplug/pki": true, "lib/glowplug/nats": true, "lib/glowplug/nats/jetstream": true,
		"lib/glowplug/ledger/1": true, "lib/glowplug/pki/old": true,
		"": true, "etc": true, "srv": true, "isos": true, "link": true, "link/glowplug": true, "lib/glowplug/assets/..": true,
	} {
		if got := s.privateIn(filepath.Join(dir, folder)); (got != "") != private {
			t.Errorf("%q: %q", folder, got)
		}
	}
}

// TestEachKeyIsPrivate: each file with a secret keeps the folder around it from being served.
func TestEachKeyIsPrivate(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	for flag, set := range map[string]func(*settings){
		"tls-private-key-file":       func(s *settings) { s.TLSKey = key },
		"token-auth-file":            func(s *settings) { s.TokenAuthFile = key },
		"pki-dir":                    func(s *settings) { s.PKIDir = dir },
		"encryption-provider-config": func(s *settings) { s.EncryptionConfig = key },
		"audit-log-path":             func(s *settings) { s.Audit.Path = key },
		"nats-creds":                 func(s *settings) { s.NATS.Creds = key },
		"nats-user-file":             func(s *settings) { s.NATS.UserFile = key },
		"nats-password-file":         func(s *settings) { s.NATS.PasswordFile = key },
		"nats-key-file":              func(s *settings) { s.NATS.KeyFile = key },
	} {
		s := settings{Options: Options{DataDir: t.TempDir()}}
		if got := s.privateIn(dir); got != "" {
			t.Fatalf("without a key: %q", got)
		}
		if set(&s); s.privateIn(dir) == "" {
			t.Errorf("the file of --%s may be served", flag)
		}
	}
}

// TestPublicFoldersAreCheckedFirst: a refused start leaves no key in a folder that everybody
// may read.
func TestPublicFoldersAreCheckedFirst(t *testing.T) {
	dir := t.TempDir()
	assets := filepath.Join(dir, "assets")
	if err := os.Mkdir(assets, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{AssetsDir: assets}, {StreamsDir: assets}} {
		o.DataDir, o.PKIDir = filepath.Join(dir, "data"), assets
		b := builder{App: &App{settings: &settings{Options: o}}}
		err := b.openStore(t.Context())
		if err == nil || !strings.Contains(err.Error(), "everybody may read the files of "+assets) {
			t.Errorf("%+v: %v", o, err)
		}
		for _, folder := range []string{assets, filepath.Join(dir, "data")} {
			if made, _ := os.ReadDir(folder); len(made) > 0 {
				t.Errorf("%s has %v", folder, made)
			}
		}
	}
}
