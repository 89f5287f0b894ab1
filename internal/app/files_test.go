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
		"": true, "etc": true, "srv": true, "isos": true, "link": true, "link/glowplug": true, "lib/glowplug/assets/..": true,
	} {
		if got := s.privateIn(filepath.Join(dir, folder)); (got != "") != private {
			t.Errorf("%q: %q", folder, got)
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
