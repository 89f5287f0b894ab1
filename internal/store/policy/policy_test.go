package policy

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/logs/logstest"
	"glowplug/internal/store/kvstore"
)

func item(key, value string) kvstore.Item {
	return kvstore.Item{Key: key, Value: []byte(value), Revision: 7}
}

// TestFollowsTheBuckets: a change of a role or a binding counts at once, and one that cannot be read allows
// nothing.
func TestFollowsTheBuckets(t *testing.T) {
	log, logged := logstest.Logger()
	p := New(log)
	observers := p.Observers()
	if len(observers) != 4 {
		t.Fatalf("%d observers for roles and bindings, of the cluster and of namespaces", len(observers))
	}
	may := func(name, namespace string) bool {
		decision, _, err := p.Authorize(t.Context(), authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: name}, Verb: "get", Namespace: namespace, Resource: "configmaps",
			ResourceRequest: true,
		})
		if err != nil || decision == authorizer.DecisionDeny {
			t.Fatal(decision, err)
		}
		return decision == authorizer.DecisionAllow
	}
	const role = `{"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["configmaps"]}]}`
	binding := func(kind, who string) string {
		return fmt.Sprintf(`{"roleRef":{"kind":%q,"name":"r"},"subjects":[{"kind":"User","name":%q}]}`, kind, who)
	}
	expect := func(step string, ann, bob bool) {
		t.Helper()
		if may("ann", "n1") != ann || may("bob", "n2") != bob || may("ann", "n2") {
			t.Errorf("%s: ann %t, bob %t", step, may("ann", "n1"), may("bob", "n2"))
		}
	}
	expect("empty", false, false)
	observers[kinds.Roles].Load([]kvstore.Item{item("n1/r", role)})
	observers[kinds.RoleBindings].Load([]kvstore.Item{item("n1/b", binding("Role", "ann"))})
	observers[kinds.ClusterRoles].Put(item("r", role))
	observers[kinds.ClusterRoleBindings].Put(item("b", binding("ClusterRole", "bob")))
	expect("bound", true, true)
	observers[kinds.ClusterRoleBindings].Put(item("b", `{"roleRef":7}`))
	expect("a binding that cannot be read", true, false)
	if text := logged(); !strings.Contains(text, "key=b") || !strings.Contains(text, "write it again") {
		t.Error(text)
	}
	observers[kinds.Roles].Delete("n1/r", 8)
	expect("without the role", false, false)
	observers[kinds.Roles].Put(item("n1/r", role))
	observers[kinds.RoleBindings].Load(nil)
	expect("another load", false, false)
}
