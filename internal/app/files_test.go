package app

import (
	"os"
	"path/filepath"
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
