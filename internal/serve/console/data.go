package console

import (
	"net/url"
	"slices"
	"strconv"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
)

// maxNamespaces is how many namespaces are asked one by one for a user who may not list those of all at once.
const maxNamespaces = 50

// each reads the lists of a resource that the user may read: one of all namespaces, else one of each. Where one cannot
// be read, it is left out: a page says what it has, and the API says why a list is refused.
func each[L any](p *page, resource string, query url.Values, read func(*L)) {
	for _, namespace := range p.namespaces(resource) {
		list := new(L)
		if p.get(resource, namespace, "", query, list) == nil {
			read(list)
		}
	}
}

// namespaces returns the namespaces in which the user may list a resource; "" alone is all of them.
func (p *page) namespaces(resource string) (names []string) {
	if p.may(resource, "") {
		return []string{""}
	}
	for _, name := range p.server.opts.Live.Namespaces() {
		if len(names) < maxNamespaces && p.may(resource, name) {
			names = append(names, name)
		}
	}
	return names
}

// unknownMachines returns the unknown machines that asked last, at most so many.
func (p *page) unknownMachines(limit int) []v1.UnknownMachine {
	list := &v1.UnknownMachineList{}
	if p.get(kinds.UnknownMachines, "", "", url.Values{"limit": {strconv.Itoa(1000)}}, list) != nil {
		return nil
	}
	slices.SortFunc(list.Items, func(a, b v1.UnknownMachine) int {
		return b.Status.LastSeen.Compare(a.Status.LastSeen.Time)
	})
	return list.Items[:min(len(list.Items), limit)]
}
