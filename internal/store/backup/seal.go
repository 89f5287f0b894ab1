package backup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"filippo.io/age"
)

// sealedPrefix begins a file that age has encrypted.
const sealedPrefix = "age-encryption.org/"

// ParseRecipients reads recipients of age, age1…, each the text of one or a file of them.
func ParseRecipients(given []string) (recipients []age.Recipient, err error) {
	for _, text := range given {
		if r, err := age.ParseX25519Recipient(text); err == nil {
			recipients = append(recipients, r)
			continue
		}
		content, err := os.ReadFile(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither a recipient of age, such as age1…, nor a file of them", text)
		}
		of, err := age.ParseRecipients(bytes.NewReader(content))
		if err != nil {
			return nil, fmt.Errorf("the file %s has no recipients of age: %w", text, err)
		}
		recipients = append(recipients, of...)
	}
	return recipients, nil
}

// Seal returns a writer that encrypts for recipients; without any it changes nothing. Close does not close w.
func Seal(w io.Writer, recipients []age.Recipient) (io.WriteCloser, error) {
	if len(recipients) == 0 {
		return open{w}, nil
	}
	return age.Encrypt(w, recipients...)
}

// open is a writer that is closed without an effect.
type open struct{ io.Writer }

func (open) Close() error { return nil }

// ErrSealed says that a backup is encrypted and that there is no key for it.
var ErrSealed = errors.New("the backup is encrypted: give the file with the key of age by --identity")

// Unseal returns a reader of what may be encrypted. identity is a file of keys of age; "": there is none.
func Unseal(r io.Reader, identity string) (io.Reader, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	if begin, _ := buffered.Peek(len(sealedPrefix)); string(begin) != sealedPrefix {
		return buffered, nil
	}
	if identity == "" {
		return nil, ErrSealed
	}
	keys, err := os.Open(identity)
	if err != nil {
		return nil, err
	}
	defer keys.Close()
	identities, err := age.ParseIdentities(keys)
	if err != nil {
		return nil, fmt.Errorf("the file %s has no keys of age: %w", identity, err)
	}
	plain, err := age.Decrypt(buffered, identities...)
	if err != nil {
		return nil, fmt.Errorf("the backup cannot be decrypted with the keys in %s: %w", identity, err)
	}
	return plain, nil
}
