package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glowplug/internal/backend"
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
		Store: backend.Options{DataDir: dir + "/lib/glowplug"}, Listeners: Listeners{TLSKey: dir + "/etc/tls.key"},
		Access: Access{TokenAuthFile: dir + "/srv/etc/tokens"}, Images: Images{ISODir: dir + "/isos"},
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
		"tls-private-key-file":       func(s *settings) { s.Listeners.TLSKey = key },
		"token-auth-file":            func(s *settings) { s.Access.TokenAuthFile = key },
		"console-oidc-client-secret": func(s *settings) { s.Console.OIDCClientSecretFile = key },
		"pki-dir":                    func(s *settings) { s.Store.PKIDir = dir },
		"encryption-provider-config": func(s *settings) { s.Store.EncryptionConfig = key },
		"audit-log-path":             func(s *settings) { s.Audit.Path = key },
		"nats-creds":                 func(s *settings) { s.Store.NATS.Creds = key },
		"nats-user-file":             func(s *settings) { s.Store.NATS.UserFile = key },
		"nats-password-file":         func(s *settings) { s.Store.NATS.PasswordFile = key },
		"nats-key-file":              func(s *settings) { s.Store.NATS.KeyFile = key },
	} {
		s := settings{Options: Options{Store: backend.Options{DataDir: t.TempDir()}}}
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
	for _, o := range []Options{{Images: Images{AssetsDir: assets}}, {Images: Images{StreamsDir: assets}}} {
		o.Store.DataDir, o.Store.PKIDir = filepath.Join(dir, "data"), assets
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

// TestWhatTheServerObeys: nobody but root and the server's own user may write or own a manifest, a
// folder of manifests, the folder of the CA or that of the admin socket.
func TestWhatTheServerObeys(t *testing.T) {
	dir := t.TempDir()
	folder, file := filepath.Join(dir, "obeyed", "folder"), filepath.Join(dir, "obeyed", "folder", "host.yaml")
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		path string
		set  func(*Options)
	}{
		"a file of manifests":        {file, func(o *Options) { o.Manifests = []string{file} }},
		"a file in a folder of them": {file, func(o *Options) { o.Manifests = []string{filepath.Dir(folder)} }},
		"a folder of manifests":      {folder, func(o *Options) { o.Manifests = []string{folder} }},
		"a folder below one":         {folder, func(o *Options) { o.Manifests = []string{filepath.Dir(folder)} }},
		"pki-dir":                    {folder, func(o *Options) { o.Store.PKIDir = folder }},
		"the admin socket":           {folder, func(o *Options) { o.Listeners.AdminListen = "unix:" + filepath.Join(folder, "s") }},
	} {
		check := func() error {
			o := Options{Store: backend.Options{DataDir: filepath.Join(dir, "data")}}
			test.set(&o)
			s := settings{Options: o}
			return s.checkFiles(func(message, _ string) { t.Errorf("%s: a warning: %s", name, message) })
		}
		info, err := os.Stat(test.path)
		if err != nil {
			t.Fatal(err)
		}
		mode := info.Mode().Perm()
		if err := check(); err != nil {
			t.Errorf("%s, mode %v: %v", name, mode, err)
		}
		_ = os.Chmod(test.path, mode|0o002)
		if err := check(); err == nil || !strings.Contains(err.Error(), test.path+" (mode ") ||
			!strings.Contains(err.Error(), "anybody may write it") {
			t.Errorf("%s that anybody may write: %v", name, err)
		}
		_ = os.Chmod(test.path, mode)
		if os.Geteuid() != 0 {
			continue // root alone gives files to other users
		}
		_ = os.Chown(test.path, 4711, 0)
		if err := check(); err == nil || !strings.Contains(err.Error(), "it belongs to user 4711") {
			t.Errorf("%s of another owner: %v", name, err)
		}
		_ = os.Chown(test.path, 0, 0)
	}
}
