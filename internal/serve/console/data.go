package console

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
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

// namespaceNames returns the names of namespaces to choose from: all, or those in which the user may list a resource.
func (p *page) namespaceNames(resource string) []string {
	if p.may(kinds.Namespaces, "") {
		return p.server.opts.Live.Namespaces()
	}
	names := p.namespaces(resource)
	if len(names) == 1 && names[0] == "" {
		return nil // he may list the objects, and not the namespaces
	}
	return names
}

// newNamespace says that a write makes a namespace, where there is none of that name.
func (p *page) newNamespace(name string) []string {
	if slices.Contains(p.server.opts.Live.Namespaces(), name) {
		return nil
	}
	return []string{"There is no namespace " + name + " yet: it is made, too."}
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

// tableRow is a row of a table of the API: the columns by their names in lower case, and the namespace.
type tableRow map[string]string

// rows reads the table that kubectl shows of a resource, or of one object, with at most so many rows. It has the
// metadata of the objects alone: configs have sources of up to 2 MiB.
func (p *page) rows(resource, namespace, name string, most int) (rows []tableRow, more bool, err error) {
	query := url.Values{"includeObject": {string(metav1.IncludeMetadata)}, "limit": {"500"}}
	for {
		table := &metav1.Table{}
		err := p.ask(p.ctx, client.Request{
			Resource: resource, Namespace: namespace, Name: name, Query: query,
			Header: map[string]string{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
		}, table)
		if err != nil {
			return rows, false, err
		}
		for i := range table.Rows {
			var object metav1.PartialObjectMetadata
			if err := json.Unmarshal(table.Rows[i].Object.Raw, &object); err != nil {
				return rows, false, err
			}
			row := tableRow{"namespace": object.Namespace}
			for c, cell := range table.Rows[i].Cells {
				row[strings.ToLower(table.ColumnDefinitions[c].Name)] = fmt.Sprint(cell)
			}
			rows = append(rows, row)
		}
		if table.Continue == "" || len(rows) >= most {
			return rows, table.Continue != "", nil
		}
		query.Set("continue", table.Continue)
	}
}

// queryOf is the query of a URL with the fields that have a value.
func queryOf(fields map[string]string) string {
	q := url.Values{}
	for key, value := range fields {
		if value != "" {
			q.Set(key, value)
		}
	}
	return "?" + q.Encode()
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
