package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/status"
)

const (
	// enoughBoots is how many boots a page lists, or some more, and bootsTime how long they are looked for.
	enoughBoots = 100
	bootsTime   = 2 * time.Second
)

// bootsPage is what the template of the boots shows.
type bootsPage struct {
	Filter          bootFilter
	Outcomes, Times []choice
	Namespaces      []string
	Boots           []bootRow
	// More has where the list goes on, in each namespace that was read.
	More []choice
	// Problems say what cannot be read.
	Problems []string
}

// boots lists boots.
func (s *Server) boots(w http.ResponseWriter, r *http.Request, p *page) {
	p.Title, p.Section = "Boots", "boots"
	data := &bootsPage{Filter: bootFilterOf(r.URL.Query()), Outcomes: bootOutcomes, Times: bootTimes}
	readable := p.namespaces(kinds.Boots)
	data.Namespaces = readable
	if slices.Equal(readable, []string{""}) {
		data.Namespaces = p.namespaceNames(kinds.Boots)
	}
	if data.Filter.Unknown {
		data.Filter.Namespace = v1.NamespaceDefault
	}
	asked := readable
	if data.Filter.Namespace != "" || len(readable) == 0 { // the API says why nothing can be read
		asked = []string{data.Filter.Namespace}
	}
	for _, namespace := range asked {
		findBoots(p, data, namespace, max(20, enoughBoots/len(asked)), bootsTime/time.Duration(len(asked)))
	}
	slices.SortStableFunc(data.Boots, func(a, b bootRow) int { return b.Begun.Compare(a.Begun.Time) })
	p.show(w, "boots", data)
}

// findBoots adds the boots of a namespace.
func findBoots(p *page, data *bootsPage, namespace string, enough int, most time.Duration) {
	f := data.Filter
	f.Namespace = namespace
	search := f.search(p.now)
	search.Enough, search.Until = enough, time.Now().Add(most)
	found, next, err := status.FindBoots(p.ctx, p.ask, search)
	if err != nil {
		data.Problems = append(data.Problems, sentence(err))
		return
	}
	for i := range found {
		data.Boots = append(data.Boots, bootRow{&found[i], p.now})
	}
	if next != nil {
		f.From = *next
		data.More = append(data.More, choice{f.query(), namespace})
	}
}

// bootRow is a boot in a list.
type bootRow struct {
	*v1.Boot
	now time.Time
}

// URL is the address of its page.
func (b bootRow) URL() string { return objectURL("boots", b.Namespace, b.Name) }

// Machine names the host, or what is known of a machine that is none.
func (b bootRow) Machine() string { return machineOf(b.Boot) }

func machineOf(b *v1.Boot) string {
	if b.Host != "" {
		return b.Namespace + "/" + b.Host
	}
	machine, _ := strings.CutSuffix(b.Name, "."+strconv.FormatInt(b.Number, 10))
	return model.MachineOf(model.Ref{Name: machine})
}

// Before is the name of the boot before; "": there was none, or it is not kept.
func (b bootRow) Before() string {
	host, ok := strings.CutSuffix(b.Name, "."+strconv.FormatInt(b.Number, 10))
	if !ok || b.Number < 2 || b.Host == "" {
		return ""
	}
	return host + "." + strconv.FormatInt(b.Number-1, 10)
}

// Compare is the address of the differences to the boot before.
func (b bootRow) Compare() string {
	return b.URL() + "?with=" + url.QueryEscape(b.Before()) + "#differences"
}

// Took is how long the boot took, or has taken so far.
func (b bootRow) Took() time.Duration {
	switch {
	case b.Begun == nil:
		return 0
	case b.Ended == nil:
		return b.now.Sub(b.Begun.Time)
	}
	return b.Ended.Sub(b.Begun.Time)
}

// Reached is the last step of a boot that goes on; "": it has ended, or there is none.
func (b bootRow) Reached() string {
	if b.Ended != nil || len(b.Steps) == 0 {
		return ""
	}
	return b.Steps[len(b.Steps)-1].Name
}

// IsFirst is true for the begin of the list.
func (d *bootsPage) IsFirst() bool { return d.Filter.From.Continue == "" }

// Begin is the query of the begin of the list.
func (d *bootsPage) Begin() string {
	f := d.Filter
	f.From = status.BootPlace{}
	return f.query()
}
