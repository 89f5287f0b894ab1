package credentials

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Bounds of the record that the servers of a store share.
const (
	maxShared       = 64 << 10 // bytes
	maxSharedTokens = 128
)

// shared is the record that the servers of a store share. Whoever may read the store may
// read it: it has no secret. Whoever may write the store, and does not have the key of the
// CA, cannot add a token to it, because it is sealed with that key.
type shared struct {
	// CA is the SHA-256 of the CA's public key.
	CA string `json:"ca"`
	// Tokens are the SHA-256 of the admin token of each server, by the server's id.
	Tokens map[string]string `json:"tokens"`
	// Seal is the HMAC of the record without it.
	Seal string `json:"seal"`
}

// SharingError says why the servers of a store do not accept each other's credentials.
type SharingError struct{ Problem, Remedy string }

func (e *SharingError) Error() string { return e.Problem }

// Hint returns the remedy.
func (e *SharingError) Hint() string { return e.Remedy }

// Merge takes over the tokens of the other servers from the record of the store, nil where
// there is none. It returns the record to be written, nil where that in the store is right,
// and whether the valid tokens have changed.
func (c *Credentials) Merge(server string, record []byte) (next []byte, changed bool, err error) {
	found, err := c.open(record)
	if err != nil {
		return nil, c.accept(nil), err
	}
	own, others := hex.EncodeToString(c.token.Load()[:]), map[hashedToken]bool{}
	for id, text := range found.Tokens {
		var hash hashedToken
		if n, err := hex.Decode(hash[:], []byte(text)); id != server && err == nil && n == len(hash) {
			others[hash] = true
		}
	}
	changed = c.accept(others)
	switch {
	case found.Tokens[server] == own:
		return nil, changed, nil
	case found.Tokens[server] == "" && len(found.Tokens) >= maxSharedTokens:
		return nil, changed, &SharingError{
			Problem: fmt.Sprintf("the store has the tokens of %d servers already, and the token of this one is not among them",
				len(found.Tokens)),
			Remedy: "remove those of servers that no longer run: glowplug store forget-credentials",
		}
	}
	found.Tokens[server] = own
	if found.Seal, err = c.seal(found); err != nil {
		return nil, changed, err
	}
	next, err = json.Marshal(found)
	return next, changed, err
}

// open reads the record. One that does not bear the seal of our CA is replaced by an empty
// one: the other servers write their tokens into it again.
func (c *Credentials) open(record []byte) (*shared, error) {
	key := sha256.Sum256(c.authority.Load().Leaf.RawSubjectPublicKeyInfo)
	empty := &shared{CA: hex.EncodeToString(key[:]), Tokens: map[string]string{}}
	if len(record) == 0 {
		return empty, nil
	}
	found := shared{}
	if len(record) <= maxShared && json.Unmarshal(record, &found) == nil && found.CA != "" && found.CA != empty.CA {
		return nil, &SharingError{
			Problem: "the CA in " + c.opts.PKIDir + " is not that of the other servers of this store: their credentials are " +
				"refused here, and those of this server there",
			Remedy: "stop this server, copy ca.crt and ca.key of another server into " + c.opts.PKIDir + " (for the owner of " +
				"the files there), and start it; if the CA of this server is the right one, stop the others and run " +
				"glowplug store forget-credentials",
		}
	}
	seal, err := c.seal(&found)
	if err != nil {
		return nil, err
	}
	if found.Tokens == nil || !hmac.Equal([]byte(seal), []byte(found.Seal)) {
		c.opts.Logger.Error("the credentials that the servers of this store share were changed by another program:" +
			" they are not used, and written again")
		return empty, nil
	}
	return &found, nil
}

// seal returns the HMAC of a record, under a key that is derived from the key of the CA.
func (c *Credentials) seal(s *shared) (string, error) {
	key, err := c.keyFor("glowplug shared credentials")
	if err != nil {
		return "", err
	}
	content, err := json.Marshal(shared{CA: s.CA, Tokens: s.Tokens})
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(content)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// TokenKey returns the key of the seals of the tokens of ServiceAccounts. All servers with the CA have it.
func (c *Credentials) TokenKey() ([]byte, error) { return c.keyFor("glowplug tokens") }

// BootKey returns the key of the tokens of boots. All servers with the CA have it.
func (c *Credentials) BootKey() ([]byte, error) { return c.keyFor("glowplug boots") }

// ConsoleKey returns the key of the sessions of the console. All servers with the CA have it.
func (c *Credentials) ConsoleKey() ([]byte, error) { return c.keyFor("glowplug console") }

// keyFor returns the key for a purpose, which is derived from the key of the CA.
func (c *Credentials) keyFor(purpose string) ([]byte, error) {
	secret, err := x509.MarshalPKCS8PrivateKey(c.authority.Load().PrivateKey)
	if err != nil {
		return nil, err
	}
	return hkdf.Key(sha256.New, secret, nil, purpose, sha256.Size)
}

// accept replaces the tokens of the other servers and reports whether they were others.
func (c *Credentials) accept(tokens map[hashedToken]bool) (changed bool) {
	before := *c.others.Swap(&tokens)
	for hash := range before {
		changed = changed || !tokens[hash]
	}
	return changed || len(before) != len(tokens)
}
