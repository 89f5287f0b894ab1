package credentials

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	"sigs.k8s.io/yaml"

	"glowplug/internal/keyfile"
)

// kubeconfig is the part of the file that is read back.
type kubeconfig struct {
	Clusters []struct {
		Cluster struct {
			Server string `json:"server"`
			CA     string `json:"certificate-authority-data"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			Token string `json:"token"`
		} `json:"user"`
	} `json:"users"`
}

// ensureAdmin reads the hash of the admin's token and makes sure that admin.kubeconfig
// has that token, the CA and the server's URL. Where the file is missing or has another
// token, a new token is created: a token cannot be derived from its hash.
func (c *Credentials) ensureAdmin() error {
	unlock, err := lockAdmin(c.opts.DataDir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.readHash(); err != nil {
		return err
	}
	hash := *c.token.Load()
	token, current, err := c.readKubeconfig()
	if err != nil {
		return err
	}
	if token == "" || !hash.matches(token) {
		c.opts.Logger.Info("creating an admin token", "file", c.KubeconfigPath())
		token, current = newToken(), false
		hash = hashOf(token)
		c.token.Store(&hash)
	}
	if current {
		return nil
	}
	if err := writeFile(c.KubeconfigPath(), c.kubeconfig(token)); err != nil {
		return err
	}
	return writeFile(c.path(tokenHash), hash.file())
}

// newToken returns a token of 256 random bits.
func newToken() string {
	raw := make([]byte, 32)
	rand.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// file returns the content of the file with a hash.
func (h hashedToken) file() []byte { return []byte(hex.EncodeToString(h[:]) + "\n") }

// refreshAdmin writes the present CA into an admin.kubeconfig that has the admin's token.
// One that the admin has removed or changed stays as it is until the next start.
func (c *Credentials) refreshAdmin() error {
	unlock, err := lockAdmin(c.opts.DataDir)
	if err != nil {
		return err
	}
	defer unlock()
	token, current, err := c.readKubeconfig()
	if err != nil || current || !c.token.Load().matches(token) {
		return err
	}
	return writeFile(c.KubeconfigPath(), c.kubeconfig(token))
}

// readHash reads the hash of the admin's token; a missing file leaves the zero hash,
// which no token has.
func (c *Credentials) readHash() error {
	data, err := os.ReadFile(c.path(tokenHash))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.takeHash(data)
}

// takeHash accepts the token whose hash a file has, and no longer the former one.
func (c *Credentials) takeHash(file []byte) error {
	raw, err := hex.DecodeString(strings.TrimSpace(string(file)))
	if err != nil || len(raw) != sha256.Size {
		return damaged(c.path(tokenHash), errors.New("want 64 hexadecimal digits"))
	}
	hash := hashedToken(raw)
	c.token.Store(&hash)
	return nil
}

// FollowAdmin accepts the token of RotateAdmin in place of the former one, and calls changed then,
// until ctx ends.
func (c *Credentials) FollowAdmin(ctx context.Context, changed func()) {
	file, err := keyfile.Follow(keyfile.Secret, c.path(tokenHash), c.opts.Logger, c.takeHash)
	if err != nil {
		c.opts.Logger.Error("a new admin token is not accepted before a restart of the server", "error", err)
		return
	}
	file.Run(ctx, changed)
}

// RotateAdmin puts a new admin token into the data directory of a server, which may be running, and
// returns the path of its admin.kubeconfig. Everything else in that file stays as it is.
func RotateAdmin(dataDir string) (path string, err error) {
	path = filepath.Join(dataDir, Kubeconfig)
	hashFile := filepath.Join(Folder(dataDir), tokenHash)
	if _, err := os.Stat(hashFile); err != nil {
		return path, err
	}
	unlock, err := lockAdmin(dataDir)
	if err != nil {
		return path, err
	}
	defer unlock()
	stored, err := os.ReadFile(hashFile)
	if err != nil {
		return path, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return filepath.Join(dataDir, Kubeconfig), err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return path, err
	}
	former, err := adminTokenIn(path, content, strings.TrimSpace(string(stored)))
	if err != nil {
		return path, err
	}
	token := newToken()
	if err := writeFile(path, bytes.ReplaceAll(content, []byte(former), []byte(token))); err != nil {
		return path, err
	}
	return path, writeFile(hashFile, hashOf(token).file())
}

// adminTokenIn returns the token in a kubeconfig that has the hash.
func adminTokenIn(path string, content []byte, hash string) (string, error) {
	var k kubeconfig
	if err := yaml.Unmarshal(content, &k); err != nil {
		return "", damaged(path, err)
	}
	for _, user := range k.Users {
		of := hashOf(user.User.Token)
		if hex.EncodeToString(of[:]) == hash {
			return user.User.Token, nil
		}
	}
	return "", fmt.Errorf("%s has no user with the admin token of the server: remove the file and restart the server, "+
		"which makes a new token", path)
}

// lockAdmin keeps other programs from changing the admin token and admin.kubeconfig until unlock.
func lockAdmin(dataDir string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	lock := flock.New(Folder(dataDir), flock.SetFlag(os.O_RDONLY))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return nil, fmt.Errorf("locking %s: %w", Folder(dataDir), err)
	}
	return func() { _ = lock.Close() }, nil
}

// readKubeconfig returns the token of admin.kubeconfig, "" where there is no file, and
// reports whether its server and CA are the present ones.
func (c *Credentials) readKubeconfig() (token string, current bool, err error) {
	path := c.KubeconfigPath()
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	var k kubeconfig
	if err := yaml.Unmarshal(data, &k); err != nil {
		return "", false, damaged(path, err)
	}
	if len(k.Users) == 0 || len(k.Clusters) == 0 {
		return "", false, nil
	}
	cluster := k.Clusters[0].Cluster
	current = cluster.Server == c.opts.Server && cluster.CA == base64.StdEncoding.EncodeToString(c.CAPEM())
	return k.Users[0].User.Token, current, nil
}

func (c *Credentials) kubeconfig(token string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: glowplug
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: admin
  user:
    token: %s
contexts:
- name: glowplug
  context:
    cluster: glowplug
    user: admin
    namespace: default
current-context: glowplug
`, c.opts.Server, base64.StdEncoding.EncodeToString(c.CAPEM()), token)
}
