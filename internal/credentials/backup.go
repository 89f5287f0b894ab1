package credentials

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// BackedUp returns the files without which a restored store is not the same to its users, by their paths in the data
// directory: the CA, which seals tokens as well, the admin's token and its hash. Files that are missing are left out.
func BackedUp(dataDir, pkiDir string) (files map[string][]byte, err error) {
	files = map[string][]byte{}
	for name, path := range pathsOfBackup(dataDir, pkiDir) {
		content, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			files[name] = content
		}
	}
	return files, nil
}

// PathOfBackup returns where a file of BackedUp belongs; false: it is none.
func PathOfBackup(dataDir, pkiDir, name string) (path string, ok bool) {
	path, ok = pathsOfBackup(dataDir, pkiDir)[name]
	return path, ok
}

func pathsOfBackup(dataDir, pkiDir string) map[string]string {
	pki := cmp.Or(pkiDir, Folder(dataDir))
	return map[string]string{
		Kubeconfig:               filepath.Join(dataDir, Kubeconfig),
		folder + "/" + caCert:    filepath.Join(pki, caCert),
		folder + "/" + caKey:     filepath.Join(pki, caKey),
		folder + "/" + tokenHash: filepath.Join(Folder(dataDir), tokenHash),
	}
}

// WriteBackedUp puts a file of a backup in its place, in one step.
func WriteBackedUp(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return writeFile(path, content)
}
