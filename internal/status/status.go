// Package status asks the API for all that is known of a host, for the command line and for the console.
package status

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/plan"
	"glowplug/internal/domain/wording"
)

// Ask sends a request and reads the answer into out, as client.Client does.
type Ask func(ctx context.Context, r client.Request, out any) error

// maxPeers is how many boots are compared with one.
const maxPeers = 500

// Of returns what a host boots and receives, what it received last and what needs attention, and the explanation of
// what it receives now.
func Of(ctx context.Context, ask Ask, host *v1.BareMetalHost, now time.Time) (
	*wording.Status, *explain.Explanation, error,
) {
	s, answer, err := Gets(ctx, ask, host)
	if err != nil {
		return nil, nil, err
	}
	if err := warn(ctx, ask, host, s, now); err != nil {
		return nil, nil, err
	}
	boots, err := Boots(ctx, ask, host, 2)
	if err == nil {
		s.LastBoots, err = Timelines(ctx, ask, host.Namespace, boots)
	}
	return s, answer, err
}

// Gets is Of without the host's events and boots.
func Gets(ctx context.Context, ask Ask, host *v1.BareMetalHost) (*wording.Status, *explain.Explanation, error) {
	s := wording.StatusOf(host)
	answer, err := Explain(ctx, ask, host)
	if err != nil {
		return nil, nil, err
	}
	s.Explain(answer)
	return s, answer, planOf(ctx, ask, host, s)
}

// Explain asks what the machine of a host boots and receives: an Ignition config or, without one, a kickstart.
func Explain(ctx context.Context, ask Ask, host *v1.BareMetalHost) (answer *explain.Explanation, err error) {
	for _, endpoint := range []string{decide.Ignition, decide.Kickstart} {
		answer = &explain.Explanation{}
		err := ask(ctx, client.Request{
			Resource: kinds.BareMetalHosts, Namespace: host.Namespace, Name: host.Name, Subresource: "explain",
			Query: url.Values{"endpoint": {endpoint}},
		}, answer)
		if err != nil {
			return nil, err
		}
		if answer.Winner != nil {
			break
		}
	}
	return answer, nil
}

// planOf plans the config on the disks that the host has reported.
func planOf(ctx context.Context, ask Ask, host *v1.BareMetalHost, s *wording.Status) error {
	if s.Gets == nil || s.Gets.Hash == "" || host.Status.Hardware == nil {
		return nil
	}
	result, err := Plan(ctx, ask, s.Gets.Config, s.Host)
	switch {
	case err != nil && client.Code(err) != 0: // such as for a kickstart, or where a reference cannot be fetched
		s.NotPlanned(err)
		return nil
	case err != nil:
		return err
	}
	s.Planned(result)
	return nil
}

// Plan returns what Ignition does with a config on the disks of a host; both are named as namespace/name.
func Plan(ctx context.Context, ask Ask, config, host string) (*plan.Plan, error) {
	namespace, name, _ := strings.Cut(config, "/")
	result := &plan.Plan{}
	return result, ask(ctx, client.Request{
		Resource: kinds.IgnitionConfigs, Namespace: namespace, Name: name, Subresource: "plan",
		Query: url.Values{"host": {host}},
	}, result)
}

// warn adds the newest warnings about the host.
func warn(ctx context.Context, ask Ask, host *v1.BareMetalHost, s *wording.Status, now time.Time) error {
	list := &v1.EventList{}
	selector := "involvedObject.kind=BareMetalHost,involvedObject.name=" + host.Name + ",type=" + v1.EventWarning
	err := ask(ctx, client.Request{
		Resource: kinds.Events, Namespace: host.Namespace, Query: url.Values{"fieldSelector": {selector}},
	}, list)
	if err == nil {
		s.Warn(list.Items, host.Status.Conditions, now)
	}
	return err
}

// Boots returns the newest boots of a host, at most so many; none where the user may not read them.
func Boots(ctx context.Context, ask Ask, host *v1.BareMetalHost, limit int) ([]v1.Boot, error) {
	list := &v1.BootList{}
	query := url.Values{"fieldSelector": {"host=" + host.Name}, "limit": {strconv.Itoa(limit)}}
	err := ask(ctx, client.Request{Resource: kinds.Boots, Namespace: host.Namespace, Query: query}, list)
	if code := client.Code(err); code == http.StatusForbidden || code == http.StatusNotFound {
		return nil, nil // a role without boots, or a server without them
	}
	return list.Items, err
}

// Timelines compares boots of a namespace with others of their images.
func Timelines(ctx context.Context, ask Ask, namespace string, boots []v1.Boot) (
	timelines []*wording.Timeline, err error,
) {
	peers := map[string][]v1.Boot{}
	for i := range boots {
		boot, image := &boots[i], ""
		if boot.Image != nil {
			image = boot.Image.Name
		}
		if _, known := peers[image]; !known && image != "" {
			list := &v1.BootList{}
			query := url.Values{"fieldSelector": {"image=" + image}, "limit": {strconv.Itoa(maxPeers)}}
			err := ask(ctx, client.Request{Resource: kinds.Boots, Namespace: namespace, Query: query}, list)
			if err != nil {
				return nil, err
			}
			peers[image] = list.Items
		}
		timelines = append(timelines, wording.TimelineOf(boot, peers[image]))
	}
	return timelines, nil
}
