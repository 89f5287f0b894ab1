package main

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"aead.dev/minisign"
)

// TestSign: a signature by a plain and by an encrypted key verifies, is the same the next time, and
// is none of a changed file. A wrong password signs nothing.
func TestSign(t *testing.T) {
	public, private, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := private.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	encrypted, err := minisign.EncryptKey("secret", private)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	var former []byte
	for name, key := range map[string][]byte{"plain": plain, "encrypted": encrypted} {
		dir := t.TempDir()
		keyFile, file := filepath.Join(dir, "key"), filepath.Join(dir, "SHA256SUMS")
		write(t, keyFile, key)
		write(t, file, []byte("sums\n"))
		t.Setenv("GLOWPLUG_SIGN_PASSWORD", "wrong")
		if err := run(keyFile, file); name == "encrypted" && err == nil {
			t.Error("a wrong password signs")
		}
		t.Setenv("GLOWPLUG_SIGN_PASSWORD", "secret")
		if err := run(keyFile, file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		signature, err := os.ReadFile(file + ".minisig")
		if err != nil {
			t.Fatal(err)
		}
		if !minisign.Verify(public, []byte("sums\n"), signature) || minisign.Verify(public, []byte("other\n"), signature) {
			t.Errorf("%s: the signature is not that of the file:\n%s", name, signature)
		}
		if former != nil && !bytes.Equal(former, signature) {
			t.Errorf("two signatures differ:\n%s\n%s", former, signature)
		}
		former = signature
	}
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
