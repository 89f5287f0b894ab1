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

// hashedToken is the SHA-256 of a token. The token is 256 random bits, which no
// salt or slow hash makes any harder to guess.
type hashedToken [sha256.Size]byte

func hashOf(token string) hashedToken { return sha256.Sum256([]byte(token)) }

func (h hashedToken) matches(token string) bool {
	other := hashOf(token)
	return subtle.ConstantTimeCompare(h[:], other[:]) == 1
}

// kubeconfig is as much of the file as is read back.
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

// ensureAdmin reads the hash of the admin's token and sees that admin.kubeconfig
// holds that token, the CA and the server's URL. A kubeconfig that is gone or has
// another token gives a new token: the old one cannot be told from its hash.
func (c *Credentials) ensureAdmin() error {
	hash, err := c.readHash()
	if err != nil {
		return err
	}
	token, current, err := c.readKubeconfig()
	if err != nil {
		return err
	}
	if hash == nil || token == "" || !hash.matches(token) {
		c.opts.Logger.Info("making an admin token", "file", c.KubeconfigPath())
		raw := make([]byte, 32)
		rand.Read(raw)
		token, current = base64.RawURLEncoding.EncodeToString(raw), false
		made := hashOf(token)
		hash = &made
	}
	if !current {
		if err := writeFile(c.KubeconfigPath(), c.kubeconfig(token)); err != nil {
			return err
		}
		if err := writeFile(c.path(tokenHash), []byte(hex.EncodeToString(hash[:])+"\n")); err != nil {
			return err
		}
	}
	c.token = *hash
	return nil
}

// refreshAdmin writes the present CA into an admin.kubeconfig that holds the admin's
// token. One that the admin has taken away or changed is left alone until the next start.
func (c *Credentials) refreshAdmin() error {
	token, current, err := c.readKubeconfig()
	if err != nil || current || !c.token.matches(token) {
		return err
	}
	return writeFile(c.KubeconfigPath(), c.kubeconfig(token))
}

func (c *Credentials) readHash() (*hashedToken, error) {
	data, err := os.ReadFile(c.path(tokenHash))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(data)))
	if err != nil || len(raw) != sha256.Size {
		return nil, damaged(c.path(tokenHash), errors.New("want 64 hexadecimal digits"))
	}
	hash := hashedToken(raw)
	return &hash, nil
}

// readKubeconfig returns the token of admin.kubeconfig, "" where there is no file,
// and reports whether server and CA in it are the present ones.
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
