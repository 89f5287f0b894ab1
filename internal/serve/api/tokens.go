package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"glowplug/internal/keyfile"
)

// tokenFile is a file of static tokens, in the CSV of Kubernetes: token, user, uid,
// "group,group". It is read again when it changes.
type tokenFile struct {
	*keyfile.Follower
	users atomic.Pointer[map[tokenHash]*user.DefaultInfo]
}

// tokenHash is the key of a token: a look-up takes the same time for every token.
type tokenHash [sha256.Size]byte

func openTokens(path string, logger *slog.Logger) (*tokenFile, error) {
	f := &tokenFile{}
	var err error
	f.Follower, err = keyfile.Follow(keyfile.Secret, path, logger, func(content []byte) error {
		users, err := parseTokens(content)
		if err != nil {
			return fmt.Errorf("token file %s: %w", path, err)
		}
		f.users.Store(&users)
		return nil
	})
	return f, err
}

// parseTokens parses the CSV. Its errors have the numbers of lines, never their text.
func parseTokens(content []byte) (map[tokenHash]*user.DefaultInfo, error) {
	users := map[tokenHash]*user.DefaultInfo{}
	reader := csv.NewReader(bytes.NewReader(content))
	reader.FieldsPerRecord = -1
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return users, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := reader.FieldPos(0)
		if len(record) < 3 {
			return nil, fmt.Errorf("line %d has %d columns: want token, user name, user id", line, len(record))
		}
		if record[0] == "" {
			return nil, fmt.Errorf("line %d has an empty token", line)
		}
		hash := tokenHash(sha256.Sum256([]byte(record[0])))
		if users[hash] != nil {
			return nil, fmt.Errorf("line %d has a token that stands above it already", line)
		}
		who := &user.DefaultInfo{Name: record[1], UID: record[2]}
		if len(record) > 3 {
			who.Groups = strings.Split(record[3], ",")
		}
		users[hash] = who
	}
}

// AuthenticateToken implements authenticator.Token.
func (f *tokenFile) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	who, ok := (*f.users.Load())[sha256.Sum256([]byte(token))]
	if !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: who}, true, nil
}
