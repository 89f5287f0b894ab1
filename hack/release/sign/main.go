// Command sign signs a file with a key of minisign, and writes the signature beside it.
//
//	sign KEY FILE
//
// The password of an encrypted key is in GLOWPLUG_SIGN_PASSWORD. The time in the signature is
// SOURCE_DATE_EPOCH, so that two signatures of a file by a key are the same.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"aead.dev/minisign"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sign KEY FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run signs a file with the key in another one.
func run(keyFile, path string) error {
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		return errors.New("SOURCE_DATE_EPOCH is not set")
	}
	key, err := readKey(keyFile, os.Getenv("GLOWPLUG_SIGN_PASSWORD"))
	if err != nil {
		return fmt.Errorf("the key %s: %w", keyFile, err)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	hashed := minisign.NewReader(file)
	if _, err := io.Copy(io.Discard, hashed); err != nil {
		return err
	}
	trusted := fmt.Sprintf("timestamp:%s\tfile:%s\thashed", epoch, filepath.Base(path))
	signature := hashed.SignWithComments(key, trusted, fmt.Sprintf("signature by the minisign key %016X", key.ID()))
	return os.WriteFile(path+".minisig", signature, 0o644)
}

// readKey reads a key, which is encrypted if minisign -W has not made it.
func readKey(file, password string) (minisign.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return minisign.PrivateKey{}, err
	}
	if !minisign.IsEncrypted(text) {
		var key minisign.PrivateKey
		err := key.UnmarshalText(text)
		return key, err
	}
	if password == "" {
		return minisign.PrivateKey{}, errors.New("it is encrypted: set GLOWPLUG_SIGN_PASSWORD")
	}
	return minisign.DecryptKey(password, text)
}
