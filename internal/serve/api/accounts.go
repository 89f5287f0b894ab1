package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/dryrun"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/tokens"
)

// Bounds of tokens. Those of the lifetime are of Kubernetes.
const (
	minTokenLife        = 10 * time.Minute
	maxTokenLife        = (1 << 32) * time.Second
	defaultTokenLife    = time.Hour
	maxTokensPerAccount = 100
)

var accountTable = &table[*v1.ServiceAccount]{
	columns: []metav1.TableColumnDefinition{
		text("Name", "The account's name."), text("Age", "Time since the account was created."),
	},
	row: func(a *v1.ServiceAccount, now time.Time) []any { return []any{a.Name, age(&a.CreationTimestamp, now)} },
}

var tokenTable = &table[*v1.Token]{
	columns: []metav1.TableColumnDefinition{
		text("Name", "The token's name."),
		text("Account", "The ServiceAccount that it is for."),
		text("Expires", "When it becomes invalid."),
		text("Last-Used", "Time since it was last used."),
		text("From", "The address of the client then."),
		text("Age", "Time since the token was made."),
	},
	row: func(k *v1.Token, now time.Time) []any {
		return []any{k.Name, k.Spec.ServiceAccountName, k.Spec.ExpirationTime.UTC().Format(time.RFC3339),
			age(k.Status.LastUsedTime, now), k.Status.LastUsedFrom, age(&k.CreationTimestamp, now)}
	},
}

// tokenRequests is the subresource token of ServiceAccounts, which kubectl create token asks.
type tokenRequests struct {
	accounts, records *endpoint
	store             storage.Interface // of the records
	tokens            *tokens.Tokens
}

var (
	_ rest.NamedCreater             = &tokenRequests{}
	_ rest.GroupVersionKindProvider = &tokenRequests{}
)

func (*tokenRequests) New() runtime.Object { return &authenticationv1.TokenRequest{} }

// Destroy does nothing: the main endpoint owns the store.
func (*tokenRequests) Destroy() {}

// GroupVersionKind implements rest.GroupVersionKindProvider: the kind is of another group than the
// ServiceAccount.
func (*tokenRequests) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")
}

// Create makes a token, and answers when its record is stored. The token is in this answer alone.
func (r *tokenRequests) Create(ctx context.Context, name string, obj runtime.Object,
	_ rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	request := obj.(*authenticationv1.TokenRequest)
	life, errs := tokenLife(&request.Spec)
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest").GroupKind(), name, errs)
	}
	found, err := r.accounts.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	account := found.(*v1.ServiceAccount)
	if account.DeletionTimestamp != nil {
		return nil, apierrors.NewForbidden(v1.Resource(kinds.ServiceAccounts), name,
			errors.New("the account is being deleted: its finalizers keep it"))
	}
	now := time.Now()
	isDryRun := dryrun.IsDryRun(options.DryRun)
	if err := r.makeRoom(ctx, account, now, isDryRun); err != nil {
		return nil, err
	}
	token, record := r.tokens.Make(account, now.Add(life))
	request.Name, request.Namespace = account.Name, account.Namespace
	request.CreationTimestamp = metav1.Now()
	request.Status = authenticationv1.TokenRequestStatus{ExpirationTimestamp: record.Spec.ExpirationTime}
	_, err = r.records.Store.Create(ctx, record, nil, &metav1.CreateOptions{DryRun: options.DryRun})
	if err != nil {
		return nil, err
	}
	if !isDryRun {
		request.Status.Token = token
	}
	return request, nil
}

// makeRoom removes the oldest record of an account with as many as it may have, if its token has expired.
func (r *tokenRequests) makeRoom(ctx context.Context, account *v1.ServiceAccount, now time.Time, isDryRun bool) error {
	of := r.tokens.Of(account)
	if len(of) < maxTokensPerAccount {
		return nil
	}
	oldest := of[0]
	if now.Before(oldest.Spec.ExpirationTime.Time) {
		return apierrors.NewForbidden(v1.Resource(kinds.ServiceAccounts), account.Name, fmt.Errorf(
			"the account has %d valid tokens already: delete those that are not used (kubectl get tokens -n %s)",
			maxTokensPerAccount, account.Namespace))
	}
	if isDryRun {
		return nil
	}
	return removeRecord(ctx, r.store, oldest)
}

// removeRecord deletes the record of a token, which another server may have done by then.
func removeRecord(ctx context.Context, store storage.Interface, record *v1.Token) error {
	at := types.NamespacedName{Namespace: record.Namespace, Name: record.Name}
	err := store.Delete(ctx, tokenKey(at), &v1.Token{}, storage.NewUIDPreconditions(string(record.UID)),
		rest.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	if storage.IsNotFound(err) {
		return nil
	}
	return err
}

// tokenLife returns the lifetime of a requested token.
func tokenLife(spec *authenticationv1.TokenRequestSpec) (time.Duration, field.ErrorList) {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if len(spec.Audiences) > 0 {
		errs = append(errs, field.Forbidden(path.Child("audiences"), "tokens are for this server alone"))
	}
	if spec.BoundObjectRef != nil {
		errs = append(errs, field.Forbidden(path.Child("boundObjectRef"), "tokens are bound to their ServiceAccount alone"))
	}
	if spec.ExpirationSeconds == nil {
		return defaultTokenLife, errs
	}
	seconds := *spec.ExpirationSeconds
	if least := int64(minTokenLife / time.Second); seconds < least {
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), seconds,
			fmt.Sprintf("must be at least %d (%d minutes)", least, least/60)))
	}
	if most := int64(maxTokenLife / time.Second); seconds > most {
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), seconds, fmt.Sprintf("must be at most %d", most)))
	}
	return time.Duration(min(seconds, int64(maxTokenLife/time.Second))) * time.Second, errs
}
