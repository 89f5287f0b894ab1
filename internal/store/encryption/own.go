package encryption

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"glowplug/internal/store/ledger"
)

// OwnFile is the name of the file that Make makes.
const OwnFile = "encryption.yaml"

// Make makes a file with a random key for all resources, if there is none yet. A second key
// of another server has another name.
func Make(path string) (made bool, err error) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	key := make([]byte, 32)
	rand.Read(key)
	sum := sha256.Sum256(key)
	content := fmt.Sprintf(ownConfig, hex.EncodeToString(sum[:4]), base64.StdEncoding.EncodeToString(key))
	err = os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = ledger.ReplaceFile(path, []byte(content))
	}
	if err != nil {
		return false, fmt.Errorf("making an encryption key: %w", err)
	}
	return true, nil
}

const ownConfig = `# Made by glowplug serve --encrypt. Without this file nothing of the store can be read:
# keep a copy of it, apart from those of the store.
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: ['*.*']
  providers:
  - secretbox:
      keys:
      - name: key-%s
        secret: %s
  - identity: {}
`
