package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// maxUnpacked bounds what a package unpacks to.
const maxUnpacked = 64 << 20

// install puts the packages into dir/node_modules. Tarballs that the cache lacks are downloaded; all are checked.
func install(packages []lockedPackage, dir string) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	cache = filepath.Join(cache, "glowplug-codemirror")
	if err := download(packages, cache); err != nil {
		return err
	}
	for _, p := range packages {
		content, err := p.tarball(cache)
		if err != nil {
			return err
		}
		if err := unpack(content, p.folder(dir)); err != nil {
			return fmt.Errorf("%s %s: %w", p.Name, p.Version, err)
		}
	}
	return nil
}

// download fetches the tarballs that the cache lacks or has with other bytes.
func download(packages []lockedPackage, cache string) error {
	args := []string{"pack", "--ignore-scripts", "--pack-destination", cache}
	fixed := len(args)
	for _, p := range packages {
		if _, err := p.tarball(cache); err != nil {
			args = append(args, p.Name+"@"+p.Version)
		}
	}
	if len(args) == fixed {
		return nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	return npm(args...)
}

// tarball reads the package from the cache, under the name that npm pack gives, and checks its bytes.
func (p lockedPackage) tarball(cache string) ([]byte, error) {
	name := strings.ReplaceAll(strings.TrimPrefix(p.Name, "@"), "/", "-") + "-" + p.Version + ".tgz"
	content, err := os.ReadFile(filepath.Join(cache, name))
	if err != nil {
		return nil, err
	}
	sum := sha512.Sum512(content)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != p.Integrity {
		return nil, fmt.Errorf("%s %s has the integrity %s, and %s has %s: somebody changed one of them; "+
			"compare both with what npm view %s@%s dist.integrity says",
			p.Name, p.Version, got, lockFile, p.Integrity, p.Name, p.Version)
	}
	return content, nil
}

func (p lockedPackage) folder(dir string) string {
	return filepath.Join(dir, "node_modules", filepath.FromSlash(p.Name))
}

// unpack writes the files of a tarball into a new folder, and nowhere else.
func unpack(tarball []byte, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	zipped, err := gzip.NewReader(bytes.NewReader(tarball))
	if err != nil {
		return err
	}
	files := tar.NewReader(io.LimitReader(zipped, maxUnpacked))
	for {
		file, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if file.Typeflag != tar.TypeReg {
			continue
		}
		_, name, _ := strings.Cut(file.Name, "/") // without the first folder, which is "package"
		if err := writeFile(root, name, files); err != nil {
			return err
		}
	}
}

func writeFile(root *os.Root, name string, from io.Reader) error {
	content, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return root.WriteFile(name, content, 0o644)
}

// licence returns the text of the package's licence, which has to be the MIT licence: another one may ask for more
// than its text in the bundle.
func (p lockedPackage) licence(dir string) (string, error) {
	content, err := os.ReadFile(filepath.Join(p.folder(dir), "package.json"))
	if err != nil {
		return "", err
	}
	var manifest struct {
		License string `json:"license"`
	}
	if err := json.Unmarshal(content, &manifest); err != nil {
		return "", fmt.Errorf("package.json of %s: %w", p.Name, err)
	}
	if manifest.License != "MIT" {
		return "", fmt.Errorf("the licence of %s %s is %q, not MIT: read it before the package gets into the bundle",
			p.Name, p.Version, manifest.License)
	}
	text, err := os.ReadFile(filepath.Join(p.folder(dir), "LICENSE"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s %s has no file LICENSE: the bundle has to have its text", p.Name, p.Version)
	}
	if err == nil && bytes.Contains(text, []byte("*/")) {
		return "", fmt.Errorf("the licence of %s %s has \"*/\", which would end the bundle's comment", p.Name, p.Version)
	}
	return strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")), err
}
