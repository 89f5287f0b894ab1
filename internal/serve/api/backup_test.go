package api

import (
	"context"
	"io"
	"net/http"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"glowplug/internal/domain/rbac"
	"glowplug/internal/store/backup"
)

// TestABackupNeedsARightOfItsOwn: a backup has the key of the CA. Who may read all resources and all paths, or write
// nearly all, gets none; a role can give the right.
func TestABackupNeedsARightOfItsOwn(t *testing.T) {
	a := start(t, func(o *Options) {
		o.Backup = func(_ context.Context, w io.Writer) (backup.Manifest, error) {
			_, err := io.WriteString(w, "all secrets")
			return backup.Manifest{}, err
		}
	})
	for name, rules := range map[string][]rbacv1.PolicyRule{
		"reader": {
			{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
			{Verbs: []string{"get"}, NonResourceURLs: []string{"*"}},
		},
		"writer": {{Verbs: []string{"get", "list", "create", "update", "patch", "delete"}, APIGroups: []string{"*"},
			Resources: []string{"*"}}},
		"saver": {{Verbs: []string{"take"}, APIGroups: []string{""}, Resources: []string{"backup"}}},
	} {
		a.must(http.StatusCreated, "POST", clusterRoles, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules,
		})
	}
	for user, role := range map[string]string{"rita": "reader", "walt": "writer", "sam": "saver", "ann": rbac.Admin,
		"boss": rbac.ClusterAdmin} {
		a.bind(role, user)
	}
	for user, want := range map[string]int{"rita": 403, "walt": 403, "ann": 403, "nobody": 403, "sam": 200, "boss": 200} {
		if got := a.do("GET", backupPath, nil, as(user)...); got.code != want {
			t.Errorf("%s: %d, want %d: %.200s", user, got.code, want, got.body)
		}
	}
}
