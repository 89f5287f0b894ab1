package console

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
)

// maxConfigs is how many configs are read of a namespace, or of all.
const maxConfigs = 2000

// configRank orders configs: first those that fail, also for some of their hosts.
func configRank(c tableRow) int {
	message := c["message"]
	switch {
	case c["phase"] == v1.PhaseError:
		return 0
	case message != "" && !strings.HasPrefix(message, "warning: "):
		return 1
	case c["phase"] == v1.PhasePending:
		return 2
	}
	return 3
}

// configFilter is what the list shows. It stands in the URL.
type configFilter struct{ Namespace, Type, Phase string }

func (f configFilter) shows(c tableRow) bool {
	isOf := func(wanted, column string) bool { return wanted == "" || wanted == c[column] }
	return isOf(f.Namespace, "namespace") && isOf(f.Type, "type") && isOf(f.Phase, "phase")
}

// With returns the query of the same filter with another phase.
func (f configFilter) With(phase string) string {
	return queryOf(map[string]string{"ns": f.Namespace, "type": f.Type, "phase": phase})
}

// configsPage is what the template of the list shows.
type configsPage struct {
	Filter     configFilter
	Namespaces []string
	Counts     []stateCount
	Rows       []tableRow
	Total      int
	Notes      []string // what is missing
}

// Hidden is the number of configs that the filter hides.
func (d *configsPage) Hidden() int { return d.Total - len(d.Rows) }

// configs shows all configs, those that fail first.
func (s *Server) configs(w http.ResponseWriter, r *http.Request, p *page) {
	p.Title, p.Section = "Configs", "configs"
	q := r.URL.Query()
	d := &configsPage{Filter: configFilter{q.Get("ns"), q.Get("type"), q.Get("phase")}}
	counts, any := map[string]int{}, d.Filter
	any.Phase = ""
	for _, c := range d.read(p) {
		d.Total++
		if !slices.Contains(d.Namespaces, c["namespace"]) {
			d.Namespaces = append(d.Namespaces, c["namespace"])
		}
		if any.shows(c) {
			counts[c["phase"]]++
		}
		if d.Filter.shows(c) {
			c["served-as"] = strings.ReplaceAll(c["served-as"], ",", ", ") // where the cell of the table can wrap
			d.Rows = append(d.Rows, c)
		}
	}
	d.Counts = countsOf(counts, []string{v1.PhaseError, v1.PhasePending, v1.PhaseReady})
	slices.SortStableFunc(d.Rows, func(a, b tableRow) int { return cmp.Compare(configRank(a), configRank(b)) })
	p.show(w, "configs", d)
}

// read reads the configs of the namespaces that the user may list, in the order of their names.
func (d *configsPage) read(p *page) (all []tableRow) {
	names := p.namespaces(kinds.IgnitionConfigs)
	if len(names) == 0 {
		names = []string{""} // the API says why nothing can be read
	}
	for _, namespace := range names {
		rows, more, err := p.rows(kinds.IgnitionConfigs, namespace, "", maxConfigs)
		if err != nil {
			d.Notes = append(d.Notes, sentence(err))
		}
		if more {
			d.Notes = append(d.Notes, "There are more configs than are read here: kubectl get ign -A")
		}
		all = append(all, rows...)
	}
	return all
}
