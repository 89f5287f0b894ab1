package tokens

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/logs/logstest"
	"glowplug/internal/store/kvstore"
)

// store is Tokens with the observers of their buckets and a clock.
type store struct {
	*Tokens
	t      *testing.T
	now    time.Time
	logged func() string
	follow map[string]kvstore.Observer
}

func newStore(t *testing.T, key string) *store {
	t.Helper()
	s := &store{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	log, logged := logstest.Logger()
	s.logged = logged
	s.Tokens = New(Options{Key: []byte(key), Logger: log, Now: func() time.Time { return s.now }})
	s.follow = s.Observers()
	return s
}

func item(t *testing.T, obj metav1.Object) kvstore.Item {
	t.Helper()
	value, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return kvstore.Item{Key: obj.GetNamespace() + "/" + obj.GetName(), Value: value, Revision: 7}
}

func (s *store) put(obj metav1.Object) {
	s.t.Helper()
	resource := kinds.Tokens
	if _, ok := obj.(*v1.ServiceAccount); ok {
		resource = kinds.ServiceAccounts
	}
	s.follow[resource].Put(item(s.t, obj))
}

// user returns the user of a token; nil: the token is not accepted.
func (s *store) user(token string) user.Info {
	s.t.Helper()
	response, ok, err := s.AuthenticateToken(s.t.Context(), token)
	if err != nil {
		s.t.Fatal(err)
	}
	if !ok {
		return nil
	}
	return response.User
}

// isRevoked reports whether tokens have become invalid since it was last called.
func (s *store) isRevoked() bool {
	select {
	case <-s.Revoked():
		return true
	default:
		return false
	}
}

func account(uid string) *v1.ServiceAccount {
	return &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "rack-a", Name: "ci", UID: types.UID(uid)}}
}

// TestTokensOfAnAccount: a token is accepted from the moment its record is stored until it expires, is
// revoked, or its account is gone.
func TestTokensOfAnAccount(t *testing.T) {
	s := newStore(t, "key")
	token, record := s.Make(account("1"), s.now.Add(time.Hour))
	other, otherRecord := s.Make(account("1"), s.now.Add(2*time.Hour))
	if s.user(token) != nil {
		t.Error("a token without a record is accepted")
	}
	s.put(record)
	s.put(otherRecord)
	if s.user(token) != nil {
		t.Error("a token of an account that does not exist is accepted")
	}
	s.put(account("1"))
	who := s.user(token)
	if who == nil || who.GetName() != "system:serviceaccount:rack-a:ci" || who.GetUID() != "1" ||
		strings.Join(who.GetGroups(), " ") != "system:serviceaccounts system:serviceaccounts:rack-a" {
		t.Fatalf("user: %v", who)
	}
	if at, ok := RecordOf(who); !ok || at.Namespace != "rack-a" || at.Name != record.Name {
		t.Errorf("record: %v %t", at, ok)
	}
	if s.isRevoked() {
		t.Error("callers are checked without a reason")
	}
	for _, wrong := range []string{"", Prefix, token[len(Prefix):], token + "x", strings.ToUpper(token), record.Spec.SHA256,
		record.Spec.Seal, Prefix + record.Spec.SHA256} {
		if s.user(wrong) != nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
	if of := s.Of(account("1")); len(of) != 2 || of[0].Name != record.Name || len(s.Of(account("2"))) != 0 {
		t.Errorf("records: %v and %v", of, s.Of(account("2")))
	}

	s.now = s.now.Add(time.Hour)
	if s.user(token) != nil || s.user(other) == nil {
		t.Error("a token is valid until it expires, and no longer")
	}
	if got := s.Expired(s.now.Add(time.Second)); len(got) != 1 || got[0].Name != record.Name {
		t.Errorf("expired: %v", got)
	}
	s.now = s.now.Add(-time.Hour)
	s.follow[kinds.Tokens].Delete("rack-a/"+record.Name, 8)
	if s.user(token) != nil || s.user(other) == nil || !s.isRevoked() {
		t.Error("a revoked token is accepted, or open requests are not checked")
	}
	s.put(account("2")) // deleted, and created again
	if s.user(other) != nil || !s.isRevoked() {
		t.Error("a token of a former account of the same name is accepted")
	}
	s.put(account("1"))
	s.follow[kinds.ServiceAccounts].Delete("rack-a/ci", 9)
	if s.user(other) != nil || !s.isRevoked() {
		t.Error("a token of a deleted account is accepted")
	}
	s.put(account("1"))
	ending := account("1")
	ending.DeletionTimestamp = &metav1.Time{Time: s.now}
	s.put(ending) // which its finalizers keep
	if s.user(other) != nil || !s.isRevoked() {
		t.Error("a token of a deleted account with finalizers is accepted")
	}
	s.put(account("1"))
	s.follow[kinds.Tokens].Load(nil) // after a connection was lost, during which the token was revoked
	if s.user(other) != nil || !s.isRevoked() {
		t.Error("a token that was revoked during an interruption is accepted")
	}
}

// TestWritersOfTheStoreMakeNoTokens: who may write the store, and does not have the key, adds no token,
// and none for another account or a longer time.
func TestWritersOfTheStoreMakeNoTokens(t *testing.T) {
	s := newStore(t, "key")
	token, record := s.Make(account("1"), s.now.Add(time.Hour))
	s.put(account("1"))
	boss := account("9")
	boss.Name = "boss"
	s.put(boss)
	for name, change := range map[string]func(record *v1.Token){
		"another namespace": func(r *v1.Token) { r.Namespace = "rack-b" },
		"another name":      func(r *v1.Token) { r.Name = "copy" },
		"another account":   func(r *v1.Token) { r.Spec.ServiceAccountName, r.Spec.ServiceAccountUID = "boss", "9" },
		"another UID":       func(r *v1.Token) { r.Spec.ServiceAccountUID = "2" },
		"a longer life":     func(r *v1.Token) { r.Spec.ExpirationTime.Time = s.now.Add(2 * time.Hour) },
		"another token":     func(r *v1.Token) { r.Spec.SHA256 = hashOf(Prefix + "mine") },
		"no seal":           func(r *v1.Token) { r.Spec.Seal = "" },
		"another key": func(r *v1.Token) {
			r.Spec.Seal = New(Options{Key: []byte("mine")}).seal(r)
		},
	} {
		s.follow[kinds.Tokens].Delete("rack-a/"+record.Name, 8)
		forged := record.DeepCopy()
		change(forged)
		s.put(forged)
		if s.user(token) != nil || s.user(Prefix+"mine") != nil {
			t.Errorf("%s: the token is accepted", name)
		}
		s.put(record)
		if s.user(token) == nil {
			t.Fatalf("%s: the true record is not accepted", name)
		}
		if forged.Name != record.Name || forged.Namespace != record.Namespace {
			s.follow[kinds.Tokens].Delete(forged.Namespace+"/"+forged.Name, 8)
			if s.user(token) == nil {
				t.Errorf("%s: the removal of a forged record removes the true one", name)
			}
		}
	}
	if text := s.logged(); !strings.Contains(text, "does not have the seal") || strings.Contains(text, token) {
		t.Error(text)
	}
	// The accounts that these records name exist, so that the seal alone refuses them.
	for name, change := range map[string]func(record *v1.Token, account *v1.ServiceAccount){
		"another namespace": func(r *v1.Token, a *v1.ServiceAccount) { r.Namespace, a.Namespace = "rack-b", "rack-b" },
		"another UID":       func(r *v1.Token, a *v1.ServiceAccount) { a.UID, r.Spec.ServiceAccountUID = "2", "2" },
	} {
		s.follow[kinds.Tokens].Delete("rack-a/"+record.Name, 8)
		forged, named := record.DeepCopy(), account("1")
		change(forged, named)
		s.put(named)
		s.put(forged)
		if s.user(token) != nil {
			t.Errorf("%s, with an account: the token is accepted", name)
		}
		s.follow[kinds.Tokens].Delete(forged.Namespace+"/"+forged.Name, 8)
		s.put(account("1"))
		s.put(record)
	}
	moved := item(t, record)
	moved.Key = "rack-a/copy"
	s.follow[kinds.Tokens].Put(moved)
	s.follow[kinds.Tokens].Delete("rack-a/"+record.Name, 8)
	if s.user(token) != nil {
		t.Error("a copy of a record outlives its deletion")
	}
	s.put(record)
	s.follow[kinds.Tokens].Put(kvstore.Item{Key: "rack-a/" + record.Name, Value: []byte(`{"spec":7}`), Revision: 8})
	if s.user(token) != nil || !strings.Contains(s.logged(), "cannot be read") {
		t.Error("a record that cannot be read is accepted, or not logged")
	}
}

// TestRecordsHoldNoToken: the record cannot be used in place of the token.
func TestRecordsHoldNoToken(t *testing.T) {
	s := newStore(t, "key")
	long := account("1")
	long.Name = strings.Repeat("a", 199) + "-" + strings.Repeat("b", 50)
	token, record := s.Make(long, s.now.Add(time.Hour))
	stored := string(item(t, record).Value)
	if strings.Contains(stored, strings.TrimPrefix(token, Prefix)) || len(token) != len(Prefix)+43 {
		t.Errorf("token %s in %s", token, stored)
	}
	if len(record.Name) != 199+1+10 {
		t.Errorf("name %s", record.Name)
	}
	if again, _ := s.Make(long, s.now); again == token {
		t.Error("two tokens are equal")
	}
}
