package backend

import (
	"reflect"
	"testing"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/kinds"
)

// TestLostRolesHoldUpMachines: roles and bindings say which namespaces are islands, so the loss of any of them counts
// as one of Namespaces.
func TestLostRolesHoldUpMachines(t *testing.T) {
	for _, kind := range kinds.All() {
		lost := (&Backend{}).losses(func(resource string) bool { return resource == kind.Resource })
		want := decide.Losses{}
		switch kind.Resource {
		case kinds.BareMetalHosts:
			want.Hosts = true
		case kinds.IgnitionConfigs:
			want.Configs = true
		case kinds.ISCSICdroms:
			want.Images = true
		case kinds.Namespaces, kinds.Roles, kinds.RoleBindings, kinds.ClusterRoles, kinds.ClusterRoleBindings:
			want.Namespaces = true
		}
		if !reflect.DeepEqual(lost, want) {
			t.Errorf("a loss of %s counts as %+v, want %+v", kind.Resource, lost, want)
		}
	}
}
