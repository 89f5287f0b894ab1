package credentials

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

// hashedToken is the SHA-256 of a token. The token has 256 random bits, so a salt or a
// slow hash would not make it harder to guess.
type hashedToken [sha256.Size]byte

func hashOf(token string) hashedToken { return sha256.Sum256([]byte(token)) }

func (h hashedToken) matches(token string) bool {
	other := hashOf(token)
	return subtle.ConstantTimeCompare(h[:], other[:]) == 1
}

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
	if err := c.readHash(); err != nil {
		return err
	}
	token, current, err := c.readKubeconfig()
	if err != nil {
		return err
	}
	if token == "" || !c.token.matches(token) {
		c.opts.Logger.Info("creating an admin token", "file", c.KubeconfigPath())
		raw := make([]byte, 32)
		rand.Read(raw)
		token, current = base64.RawURLEncoding.EncodeToString(raw), false
		c.token = hashOf(token)
	}
	if current {
		return nil
	}
	if err := writeFile(c.KubeconfigPath(), c.kubeconfig(token)); err != nil {
		return err
	}
	return writeFile(c.path(tokenHash), []byte(hex.EncodeToString(c.token[:])+"\n"))
}

// refreshAdmin writes the present CA into an admin.kubeconfig that has the admin's token.
// One that the admin has removed or changed stays as it is until the next start.
func (c *Credentials) refreshAdmin() error {
	token, current, err := c.readKubeconfig()
	if err != nil || current || !c.token.matches(token) {
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
	raw, err := hex.DecodeString(strings.TrimSpace(string(data)))
	if err != nil || len(raw) != sha256.Size {
		return damaged(c.path(tokenHash), errors.New("want 64 hexadecimal digits"))
	}
	c.token = hashedToken(raw)
	return nil
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
