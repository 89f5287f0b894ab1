package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
)

const (
	// maxRows is how many objects are read of a namespace, configsOfPage how many are shown at a time, and
	// maxNamespacesRead how many namespaces are read for one page.
	maxRows           = 5000
	configsOfPage     = 200
	maxNamespacesRead = 500
)

// tableRow is a row of a table of the API, by the names of its columns in lower case.
type tableRow map[string]string

// rows reads the table that kubectl shows of a resource, or of one object, with at most so many rows. It has no
// objects: configs have sources of up to 2 MiB.
func (p *page) rows(resource, namespace, name string, most int) (rows []tableRow, more bool, err error) {
	query := url.Values{"includeObject": {string(metav1.IncludeNone)}}
	if name == "" {
		query.Set("limit", "500")
	}
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
			row := tableRow{}
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

// configRow is a config in the list.
type configRow struct {
	Namespace string
	tableRow
}

func (c configRow) Name() string  { return c.tableRow["name"] }
func (c configRow) Phase() string { return c.tableRow["phase"] }

// Get returns the text in a column.
func (c configRow) Get(column string) string { return c.tableRow[column] }

// Served has the Ignition spec versions that the config can be served in.
func (c configRow) Served() string { return strings.ReplaceAll(c.Get("served-as"), ",", ", ") }

// IsOld is true where machines are served the result of an older source.
func (c configRow) IsOld() bool { return c.Phase() == v1.PhaseError && c.tableRow["hash"] != "" }

// rank orders configs: first those that fail, also for some of their hosts.
func (c configRow) rank() int {
	message := c.tableRow["message"]
	switch {
	case c.Phase() == v1.PhaseError:
		return 0
	case message != "" && !strings.HasPrefix(message, "warning: "):
		return 1
	case c.Phase() == v1.PhasePending:
		return 2
	}
	return 3
}

// configFilter is what the list shows. It stands in the URL.
type configFilter struct{ Namespace, Type, Phase string }

func (f configFilter) shows(c configRow) bool {
	isOf := func(wanted, value string) bool { return wanted == "" || wanted == value }
	return isOf(f.Namespace, c.Namespace) && isOf(f.Type, c.Get("type")) && isOf(f.Phase, c.Phase())
}

// With returns the query of the same filter with another phase.
func (f configFilter) With(phase string) string {
	f.Phase = phase
	return f.At(0)
}

// At returns the query of the same filter from a row on.
func (f configFilter) At(from int) string {
	q := url.Values{}
	for key, value := range map[string]string{"ns": f.Namespace, "type": f.Type, "phase": f.Phase} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if from > 0 {
		q.Set("from", strconv.Itoa(from))
	}
	return "?" + q.Encode()
}

// configsPage is what the template of the list shows.
type configsPage struct {
	Filter          configFilter
	Namespaces      []string
	Counts          []stateCount
	Rows            []configRow
	Matching, Total int
	From, Next      int // Next is 0 where there are no further ones
	// Notes say what is missing.
	Notes []string
}

// Hidden is the number of configs that the filter hides.
func (d *configsPage) Hidden() int { return d.Total - d.Matching }

// Part says which of the matching configs are shown; "": all.
func (d *configsPage) Part() string {
	if len(d.Rows) == d.Matching {
		return ""
	}
	return fmt.Sprintf("; on this page %d to %d", d.From+1, d.From+len(d.Rows))
}

// configs shows all configs, those that fail first.
func (s *Server) configs(w http.ResponseWriter, r *http.Request, p *page) {
	p.Title, p.Section = "Configs", "configs"
	q := r.URL.Query()
	data := &configsPage{Filter: configFilter{q.Get("ns"), q.Get("type"), q.Get("phase")}}
	all := p.allConfigs(data)
	counts, namespaces, any := map[string]int{}, map[string]bool{}, data.Filter
	any.Phase = ""
	var matching []configRow
	for _, c := range all {
		namespaces[c.Namespace] = true
		if any.shows(c) {
			counts[c.Phase()]++
		}
		if data.Filter.shows(c) {
			matching = append(matching, c)
		}
	}
	data.Namespaces = slices.Sorted(maps.Keys(namespaces))
	for _, phase := range []string{v1.PhaseError, v1.PhasePending, v1.PhaseReady} {
		data.Counts = append(data.Counts, stateCount{phase, counts[phase]})
	}
	slices.SortStableFunc(matching, func(a, b configRow) int { return cmp.Compare(a.rank(), b.rank()) })
	data.Total, data.Matching = len(all), len(matching)
	if at, err := strconv.Atoi(q.Get("from")); err == nil && at > 0 && at < len(matching) {
		data.From = at
	}
	data.Rows = matching[data.From:min(len(matching), data.From+configsOfPage)]
	if next := data.From + len(data.Rows); next < len(matching) {
		data.Next = next
	}
	p.show(w, "configs", data)
}

// allConfigs reads the configs of the namespaces that the user may list, in the order of their names.
func (p *page) allConfigs(d *configsPage) (all []configRow) {
	names := p.namespaces(kinds.IgnitionConfigs)
	if len(names) == 0 {
		_, _, err := p.rows(kinds.IgnitionConfigs, "", "", 1)
		if err != nil {
			d.Notes = append(d.Notes, sentence(err))
		}
	}
	if slices.Equal(names, []string{""}) {
		names = slices.Sorted(slices.Values(p.server.opts.Live.Namespaces()))
	}
	if len(names) > maxNamespacesRead {
		d.Notes = append(d.Notes, fmt.Sprintf("Only the first %d of %d namespaces are read.", maxNamespacesRead, len(names)))
		names = names[:maxNamespacesRead]
	}
	for _, namespace := range names {
		rows, more, err := p.rows(kinds.IgnitionConfigs, namespace, "", maxRows)
		if err != nil {
			d.Notes = append(d.Notes, "The configs of "+namespace+" cannot be read: "+sentence(err))
		}
		if more {
			d.Notes = append(d.Notes, fmt.Sprintf("Only the first %d configs of %s are read.", maxRows, namespace))
		}
		for _, row := range rows {
			all = append(all, configRow{namespace, row})
		}
	}
	return all
}
