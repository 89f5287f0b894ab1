package cli

import (
	"context"
	"net/http"
	"net/url"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/domain/wording"
)

// noUUID says why the UUID that a machine reports is not its own; "": nothing is known against it. What the user may
// not list is not compared.
func (a *adoption) noUUID(ctx context.Context, options *clientOptions, machine *v1.UnknownMachine) (string, error) {
	if uuid := machine.Status.SystemUUID; uuid == "" || netaddr.IsPlaceholderUUID(uuid) {
		return wording.NoUUID(machine, nil, nil), nil
	}
	var machines v1.UnknownMachineList
	err := options.do(ctx, client.Request{Resource: kinds.UnknownMachines}, &machines)
	if err != nil && client.Code(err) != http.StatusForbidden {
		return "", err
	}
	hosts, err := a.hostsWithUUID(ctx, options, machine.Status.SystemUUID)
	return wording.NoUUID(machine, machines.Items, hosts.Items), err
}

// hostsWithUUID returns the hosts with a UUID of all namespaces, or of the one of the new host for a user who
// may list only these.
func (a *adoption) hostsWithUUID(ctx context.Context, options *clientOptions, uuid string) (
	hosts v1.BareMetalHostList, err error,
) {
	for _, namespace := range []string{"", a.Namespace} {
		err = options.do(ctx, client.Request{Resource: kinds.BareMetalHosts, Namespace: namespace,
			Query: url.Values{"fieldSelector": {"spec.systemUUID=" + uuid}}}, &hosts)
		if client.Code(err) != http.StatusForbidden {
			return hosts, err
		}
	}
	return hosts, nil
}
