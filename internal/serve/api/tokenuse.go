package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/tokens"
)

const (
	// useInterval is how often the uses of tokens are written, but for the first use of a token, which
	// is written at once, and useStep the least time between two writes of one token.
	useInterval = 10 * time.Second
	useStep     = 4 * time.Minute
	// expiryInterval is how often open requests are checked for tokens that have expired since.
	expiryInterval = time.Minute
	// expiredFor is how long the record of an expired token stays. A clock that is ahead by less
	// removes no valid token.
	expiredFor = 7 * 24 * time.Hour
)

// tokenUses remembers which tokens are used, and writes the status of their records.
type tokenUses struct {
	tokens   *tokens.Tokens
	store    storage.Interface // of the records
	resolver Resolver
	logger   *slog.Logger

	mu sync.Mutex
	// last is the last use of each token since useStep, with the time of its write.
	last map[types.NamespacedName]*tokenUse
	// first has a value when a token is used that is not in last.
	first chan struct{}
}

type tokenUse struct {
	at      time.Time
	from    string
	written time.Time
}

// note remembers the use of the token of an authenticated request, if it has one.
func (u *tokenUses) note(who user.Info, r *http.Request) {
	record, ok := tokens.RecordOf(who)
	if !ok {
		return
	}
	from := ""
	if addr := u.resolver.Caller(r).Addr; addr.IsValid() {
		from = addr.String()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	use := u.last[record]
	if use == nil {
		use = &tokenUse{}
		u.last[record] = use
		select {
		case u.first <- struct{}{}:
		default: // the next write is pending already
		}
	}
	use.at, use.from = time.Now(), from
}

// filter notes the tokens of requests. It follows the authentication.
func (u *tokenUses) filter(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who, ok := request.UserFrom(r.Context()); ok {
			u.note(who, r)
		}
		h.ServeHTTP(w, r)
	})
}

// run writes uses and removes the records of expired tokens, until ctx ends. A slow store delays the
// next round alone.
func (u *tokenUses) run(ctx context.Context) {
	write, expiry := time.NewTicker(useInterval), time.NewTicker(expiryInterval)
	defer write.Stop()
	defer expiry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-write.C:
			u.write(ctx)
		case <-u.first:
			u.write(ctx)
		case <-expiry.C:
			u.removeExpired(ctx)
		}
	}
}

// watchRevocations calls recheck after tokens were revoked, and when some may have expired, until ctx
// ends.
func (u *tokenUses) watchRevocations(ctx context.Context, recheck func()) {
	expiry := time.NewTicker(expiryInterval)
	defer expiry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-u.tokens.Revoked():
		case <-expiry.C:
		}
		recheck()
	}
}

// hasToken reports whether the credential of a request is a token of a ServiceAccount.
func hasToken(r *http.Request) bool {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.HasPrefix(strings.TrimSpace(token), tokens.Prefix)
}

// due returns the pending uses, and forgets the tokens that are not in use.
func (u *tokenUses) due(now time.Time) map[types.NamespacedName]tokenUse {
	u.mu.Lock()
	defer u.mu.Unlock()
	due := map[types.NamespacedName]tokenUse{}
	for record, use := range u.last {
		switch {
		case now.Sub(use.written) < useStep:
		case use.at.After(use.written):
			use.written = now
			due[record] = *use
		default:
			delete(u.last, record)
		}
	}
	return due
}

// write writes the uses that are due. Another server may have written a later one.
func (u *tokenUses) write(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, useInterval)
	defer cancel()
	for record, use := range u.due(time.Now()) {
		err := amend(ctx, u.store, tokenKey(record), &v1.Token{}, nil, func(token *v1.Token) {
			if last := token.Status.LastUsedTime; last == nil || use.at.After(last.Add(useStep)) {
				token.Status = v1.TokenStatus{LastUsedTime: &metav1.Time{Time: use.at}, LastUsedFrom: use.from}
			}
		})
		if err != nil && !storage.IsNotFound(err) {
			u.logger.Debug("the last use of a token is not written", "namespace", record.Namespace, "token", record.Name,
				"error", err)
		}
	}
}

// removeExpired removes the records of tokens that expired a while ago.
func (u *tokenUses) removeExpired(ctx context.Context) {
	u.remove(ctx, u.tokens.Expired(time.Now().Add(-expiredFor)))
}

// remove deletes the records of invalid tokens, as far as the store allows for it in time.
func (u *tokenUses) remove(ctx context.Context, records []*v1.Token) {
	ctx, cancel := context.WithTimeout(ctx, useInterval)
	defer cancel()
	for _, record := range records {
		if err := removeRecord(ctx, u.store, record); err != nil {
			u.logger.Debug("the record of an invalid token is left", "namespace", record.Namespace, "token", record.Name,
				"error", err)
		}
	}
}

// tokenKey returns the key of a record in its store.
func tokenKey(at types.NamespacedName) string {
	return "/" + kinds.Tokens + "/" + at.Namespace + "/" + at.Name
}
