// Package tokens has the ServiceAccounts and the records of their tokens in memory, as their buckets
// have them. It makes tokens, and authenticates callers with them.
package tokens

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/objects"
)

// Prefix begins each token, so that programs that search for secrets find it.
const Prefix = "glowplug_"

// maxNamePart bounds the part of a record's name that is the name of the account.
const maxNamePart = 200

// credentialPrefix begins the id of a credential that is a token; its namespace and name follow.
const credentialPrefix = "token/"

// Options are the settings of Tokens.
type Options struct {
	// Key is the key of the seals: the same for all servers of a store, and not in the store.
	Key []byte
	// Logger logs records that are not accepted; nil discards it.
	Logger *slog.Logger
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Tokens follows the buckets of ServiceAccounts and Tokens. It is safe for concurrent use.
type Tokens struct {
	opts Options
	// revoked has an element after tokens have become invalid.
	revoked chan struct{}

	mu       sync.RWMutex
	accounts map[types.NamespacedName]types.UID
	records  map[types.NamespacedName]*v1.Token
	byHash   map[string]*v1.Token // by spec.sha256
}

// New returns Tokens that accept no token. Their Observers fill them.
func New(opts Options) *Tokens {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Tokens{
		opts: opts, revoked: make(chan struct{}, 1),
		accounts: map[types.NamespacedName]types.UID{},
		records:  map[types.NamespacedName]*v1.Token{}, byHash: map[string]*v1.Token{},
	}
}

// Revoked returns a channel that has an element after tokens have become invalid.
func (t *Tokens) Revoked() <-chan struct{} { return t.revoked }

// Make returns a new token of an account, and its record, which is not stored yet. The token is
// nowhere else: it cannot be shown again.
func (t *Tokens) Make(account *v1.ServiceAccount, expires time.Time) (token string, record *v1.Token) {
	secret := make([]byte, sha256.Size)
	rand.Read(secret)
	token = Prefix + base64.RawURLEncoding.EncodeToString(secret)
	name := strings.TrimRight(account.Name[:min(len(account.Name), maxNamePart)], "-.")
	record = &v1.Token{
		ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: name + "-" + strings.ToLower(rand.Text()[:10])},
		Spec: v1.TokenSpec{
			ServiceAccountName: account.Name, ServiceAccountUID: string(account.UID),
			ExpirationTime: metav1.NewTime(expires.UTC().Truncate(time.Second)), SHA256: hashOf(token),
		},
	}
	record.Spec.Seal = t.seal(record)
	return token, record
}

// hashOf returns the SHA-256 of a token, which has 256 random bits: a salt or a slow hash would not
// make it harder to guess.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// seal returns the seal of a record: who does not have the key can make no record, and none that is
// for another account, or valid for longer, of one that he has.
func (t *Tokens) seal(record *v1.Token) string {
	spec := &record.Spec
	content, _ := json.Marshal([]any{record.Namespace, record.Name, spec.ServiceAccountName, spec.ServiceAccountUID,
		spec.ExpirationTime.Unix(), spec.SHA256}) // strings and a number
	mac := hmac.New(sha256.New, t.opts.Key)
	mac.Write(content)
	return hex.EncodeToString(mac.Sum(nil))
}

// AuthenticateToken implements authenticator.Token.
func (t *Tokens) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	if !strings.HasPrefix(token, Prefix) {
		return nil, false, nil
	}
	hash := hashOf(token)
	t.mu.RLock()
	defer t.mu.RUnlock()
	record := t.byHash[hash]
	if record == nil || !t.opts.Now().Before(record.Spec.ExpirationTime.Time) {
		return nil, false, nil
	}
	at := types.NamespacedName{Namespace: record.Namespace, Name: record.Spec.ServiceAccountName}
	if uid := t.accounts[at]; uid == "" || string(uid) != record.Spec.ServiceAccountUID {
		return nil, false, nil
	}
	who := serviceaccount.ServiceAccountInfo{
		Namespace: at.Namespace, Name: at.Name, UID: record.Spec.ServiceAccountUID,
		CredentialID: credentialPrefix + record.Namespace + "/" + record.Name,
	}
	return &authenticator.Response{User: who.UserInfo()}, true, nil
}

// RecordOf returns the record of the token that a user was authenticated with.
func RecordOf(who user.Info) (at types.NamespacedName, ok bool) {
	for _, id := range who.GetExtra()[user.CredentialIDKey] {
		if path, ok := strings.CutPrefix(id, credentialPrefix); ok {
			namespace, name, _ := strings.Cut(path, "/")
			return types.NamespacedName{Namespace: namespace, Name: name}, true
		}
	}
	return types.NamespacedName{}, false
}

// Of returns the records of an account, those that expire first before the others.
func (t *Tokens) Of(account *v1.ServiceAccount) (records []*v1.Token) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for at, record := range t.records {
		if at.Namespace == account.Namespace && record.Spec.ServiceAccountUID == string(account.UID) {
			records = append(records, record)
		}
	}
	slices.SortFunc(records, func(a, b *v1.Token) int {
		return a.Spec.ExpirationTime.Compare(b.Spec.ExpirationTime.Time)
	})
	return records
}

// Expired returns the records of the tokens that had expired at a time.
func (t *Tokens) Expired(by time.Time) (expired []*v1.Token) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, record := range t.records {
		if record.Spec.ExpirationTime.Time.Before(by) {
			expired = append(expired, record)
		}
	}
	return expired
}

// Observers returns the observers of the buckets, by resource.
func (t *Tokens) Observers() map[string]kvstore.Observer {
	accounts := objects.Observer[v1.ServiceAccount]{
		Lock: &t.mu, Clear: func() { clear(t.accounts); t.revoke() }, Put: t.putAccount, Unreadable: t.unreadable,
	}
	records := objects.Observer[v1.Token]{
		Lock: &t.mu, Clear: func() { clear(t.records); clear(t.byHash); t.revoke() }, Put: t.putRecord,
		Unreadable: t.unreadable,
	}
	return map[string]kvstore.Observer{kinds.ServiceAccounts: accounts.Follow(), kinds.Tokens: records.Follow()}
}

func (t *Tokens) putAccount(at types.NamespacedName, account *v1.ServiceAccount) {
	before := t.accounts[at]
	if account == nil || account.DeletionTimestamp != nil { // a deleted account may be kept by its finalizers
		delete(t.accounts, at)
	} else {
		t.accounts[at] = account.UID
	}
	if before != "" && before != t.accounts[at] {
		t.revoke()
	}
}

func (t *Tokens) putRecord(at types.NamespacedName, record *v1.Token) {
	before := t.records[at]
	delete(t.records, at)
	wasValid := before != nil && t.byHash[before.Spec.SHA256] == before
	if wasValid {
		delete(t.byHash, before.Spec.SHA256)
	}
	if record != nil {
		t.records[at] = record
		isInPlace := record.Namespace == at.Namespace && record.Name == at.Name
		if isInPlace && hmac.Equal([]byte(record.Spec.Seal), []byte(t.seal(record))) {
			t.byHash[record.Spec.SHA256] = record
		} else {
			t.opts.Logger.Error("the record of a token does not have the seal of this server's CA, and the token is refused: "+
				"another program has written it, or the CA has changed; delete the record, and make a new token",
				"namespace", at.Namespace, "token", at.Name)
		}
	}
	if wasValid && t.byHash[before.Spec.SHA256] == nil {
		t.revoke()
	}
}

// revoke tells the server to check the callers of open requests. It never waits.
func (t *Tokens) revoke() {
	select {
	case t.revoked <- struct{}{}:
	default:
	}
}

func (t *Tokens) unreadable(item kvstore.Item, err error) {
	t.opts.Logger.Error("a stored ServiceAccount or Token cannot be read, and its tokens are refused: write it again",
		"key", item.Key, "revision", item.Revision, "error", err)
}
