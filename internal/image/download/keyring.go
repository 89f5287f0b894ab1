package download

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
)

// maxKeyring bounds the file of a keyring.
const maxKeyring = 16 << 20

// Keyring are the OpenPGP keys (RFC 9580) that files have to be signed with.
type Keyring struct{ keys openpgp.EntityList }

// ReadKeyring reads public keys from a file, as `gpg --export` writes them, with or
// without --armor; several armored ones may follow each other.
func ReadKeyring(name string) (*Keyring, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyring+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeyring {
		return nil, fmt.Errorf("it has more than %d bytes", maxKeyring)
	}
	return ParseKeyring(text)
}

// ParseKeyring reads the text of a keyring.
func ParseKeyring(text []byte) (*Keyring, error) {
	const begin, end = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
	var keys openpgp.EntityList
	_, rest, armored := bytes.Cut(text, []byte(begin))
	if !armored {
		list, err := openpgp.ReadKeyRing(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("it holds no OpenPGP keys: %w", err)
		}
		keys = list
	}
	for armored {
		block, after, ok := bytes.Cut(rest, []byte(end))
		if !ok {
			return nil, errors.New("it holds no OpenPGP keys: a PGP PUBLIC KEY BLOCK has no end")
		}
		list, err := openpgp.ReadArmoredKeyRing(strings.NewReader(begin + string(block) + end + "\n"))
		if err != nil {
			return nil, fmt.Errorf("it holds no OpenPGP keys: %w", err)
		}
		keys = append(keys, list...)
		_, rest, armored = bytes.Cut(after, []byte(begin))
	}
	if len(keys) == 0 {
		return nil, errors.New("it holds no OpenPGP keys")
	}
	for _, e := range keys {
		if e.PrivateKey != nil {
			return nil, errors.New("it holds a private key: give the public ones, as gpg --export writes them")
		}
	}
	return &Keyring{keys: keys}, nil
}

// Verify reads all of content and reports whether a detached signature of it, armored
// or not, is by a key of the keyring that is valid now.
func (k *Keyring) Verify(content io.Reader, signature []byte) error {
	var source io.Reader = bytes.NewReader(signature)
	if bytes.HasPrefix(bytes.TrimSpace(signature), []byte("-----BEGIN")) {
		block, err := armor.Decode(source)
		if err != nil || block.Type != openpgp.SignatureType {
			return errors.New("its signature cannot be read: it is armored, and no PGP SIGNATURE")
		}
		source = block.Body
	}
	_, err := openpgp.CheckDetachedSignature(k.keys, content, source, nil)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return errors.New("its signature is by none of the keys of the keyring")
	case errors.Is(err, pgperrors.ErrKeyExpired):
		return errors.New("its signature is by a key that has expired: export the renewed key into the keyring")
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		return errors.New("its signature is by a key that was revoked")
	}
	return fmt.Errorf("its signature is wrong: %w", err)
}
