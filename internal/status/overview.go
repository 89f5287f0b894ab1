package status

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/wording"
)

// maxPage is how many objects are asked for at once.
const maxPage = 500

// errNoMembers is the reason why the servers are not known.
var errNoMembers = errors.New("the server is older than this program and keeps no list of servers")

// Overview returns what is known of all servers, and of the hosts, images and configs of a namespace; "": of all
// namespaces. What the user may not read, or the store does not have now, is left out, and named. An error says that
// the server cannot be asked, or has nothing to tell.
func Overview(ctx context.Context, ask Ask, namespace string, now time.Time) (*wording.Overview, error) {
	o := &wording.Overview{}
	away := 0
	reads := []func() error{
		func() error {
			return pages(ctx, ask, o, kinds.Members, "", func(l *v1.MemberList) string {
				o.AddMembers(l.Items, now)
				return l.Continue
			})
		},
		func() error {
			return pages(ctx, ask, o, kinds.BareMetalHosts, namespace, func(l *v1.BareMetalHostList) string {
				o.AddHosts(l.Items)
				return l.Continue
			})
		},
		func() error {
			return pages(ctx, ask, o, kinds.ISCSICdroms, namespace, func(l *v1.ISCSICdromList) string {
				o.AddImages(l.Items)
				return l.Continue
			})
		},
		func() error {
			return pages(ctx, ask, o, kinds.IgnitionConfigs, namespace, func(l *v1.IgnitionConfigList) string {
				o.AddConfigs(l.Items)
				return l.Continue
			})
		},
	}
	for _, read := range reads {
		err := read()
		if client.Code(err) == http.StatusServiceUnavailable {
			away++
		}
		if err != nil && (client.Code(err) != http.StatusServiceUnavailable || away == len(reads)) {
			return nil, err
		}
	}
	o.End()
	return o, nil
}

// pages reads all objects of a resource and adds them, page by page; add returns where the next one begins.
func pages[L any](
	ctx context.Context, ask Ask, o *wording.Overview, resource, namespace string, add func(*L) (next string),
) error {
	query := url.Values{"limit": {strconv.Itoa(maxPage)}}
	for {
		list := new(L)
		err := ask(ctx, client.Request{Resource: resource, Namespace: namespace, Query: query}, list)
		code := client.Code(err)
		switch {
		case code == http.StatusNotFound && resource == kinds.Members:
			o.Withhold(resource, errNoMembers)
			return nil
		case code == http.StatusForbidden:
			o.Withhold(resource, err)
			return nil
		case code == http.StatusServiceUnavailable:
			o.Withhold(resource, err)
			return err
		case err != nil:
			return err
		}
		next := add(list)
		if next == "" {
			return nil
		}
		query.Set("continue", next)
	}
}
