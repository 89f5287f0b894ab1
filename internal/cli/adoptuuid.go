package cli

import (
	"context"
	"net/http"
	"net/url"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/netaddr"
)

// whyNoUUID says why the UUID that a machine reports is not its own, as the rest of a sentence; "": nothing is
// known against it. Boards of one model may have the UUID of their vendor's template. What the user may not
// list is not compared.
func (a *adoption) whyNoUUID(ctx context.Context, options *clientOptions, machine *v1.UnknownMachine) (string, error) {
	uuid := machine.Status.SystemUUID
	switch {
	case uuid == "":
		return "", nil
	case netaddr.IsPlaceholderUUID(uuid):
		return "many machines report it, since their vendor has set none of their own", nil
	}
	var machines v1.UnknownMachineList
	err := options.do(ctx, client.Request{Resource: "unknownmachines"}, &machines)
	if err != nil && client.Code(err) != http.StatusForbidden {
		return "", err
	}
	for i := range machines.Items {
		other := &machines.Items[i]
		if other.Name != machine.Name && netaddr.KeyOfUUID(other.Status.SystemUUID) == netaddr.KeyOfUUID(uuid) {
			return "UnknownMachine " + other.Name + " reports it too", nil
		}
	}
	hosts, err := a.hostsWithUUID(ctx, options, uuid)
	if err != nil || len(hosts.Items) == 0 {
		return "", err
	}
	return "BareMetalHost " + hosts.Items[0].Namespace + "/" + hosts.Items[0].Name + " has it", nil
}

// hostsWithUUID returns the hosts with a UUID of all namespaces, or of the one of the new host for a user who
// may list only these.
func (a *adoption) hostsWithUUID(ctx context.Context, options *clientOptions, uuid string) (
	hosts v1.BareMetalHostList, err error,
) {
	for _, namespace := range []string{"", a.namespace} {
		err = options.do(ctx, client.Request{Resource: "baremetalhosts", Namespace: namespace,
			Query: url.Values{"fieldSelector": {"spec.systemUUID=" + uuid}}}, &hosts)
		if client.Code(err) != http.StatusForbidden {
			return hosts, err
		}
	}
	return hosts, nil
}
