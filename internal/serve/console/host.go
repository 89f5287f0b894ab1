package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/wording"
	"glowplug/internal/status"
)

// maxBoots is how many boots of a host are listed.
const maxBoots = 20

// hostPage is what the template of a host shows.
type hostPage struct {
	Host *v1.BareMetalHost
	// State is the newest one: that of the object is written a moment later.
	State   string
	Status  *wording.Status
	Lines   []wording.Line
	Why     []wording.Line
	Problem string // why status is missing

	Now     *timeline // the newest boot
	Earlier []*wording.Timeline
	Tiers   []tier
	NoMatch []explain.Candidate
	Hidden  int
	Winner  *explain.Winner
	Answer  *explain.Explanation
	Events  []v1.Event
	Images  []string
}

// tier has the candidates of one tier of the matching.
type tier struct {
	Name       string
	Candidates []explain.Candidate
	// Note is why the tier has none.
	Note string
	Won  bool
}

// host shows one host.
func (s *Server) host(w http.ResponseWriter, r *http.Request, p *page) {
	data := &hostPage{Host: &v1.BareMetalHost{}}
	namespace, name := r.PathValue("ns"), r.PathValue("name")
	p.Title, p.Section = namespace+"/"+name, "fleet"
	if err := p.get(kinds.BareMetalHosts, namespace, name, nil, data.Host); err != nil {
		p.fail(w, "BareMetalHost "+namespace+"/"+name, err)
		return
	}
	data.State = data.Host.Status.State
	if data.State == "" {
		data.State = v1.StateAvailable
	}
	found, answer, err := status.Of(p.ctx, p.ask, data.Host, p.now)
	if err != nil {
		data.Problem = sentence(err)
		data.Status = wording.StatusOf(data.Host)
	} else {
		data.explained(found, answer)
	}
	data.Lines = data.Status.Lines(p.now)
	hostBoots(p, data)
	hostEvents(p, data)
	data.Images = p.imageNames()
	p.show(w, "host", data)
}

// explained takes over what the machine gets now, and why.
func (d *hostPage) explained(found *wording.Status, answer *explain.Explanation) {
	d.Status, d.Answer, d.Winner = found, answer, answer.Winner
	d.Why, d.Hidden = wording.Explanation(answer), answer.Hidden
	if answer.Boot != nil && answer.Boot.State != "" {
		d.State = answer.Boot.State
	}
	d.Tiers, d.NoMatch = tiersOf(answer)
}

// tiersOf returns the candidates by their tiers, in the order in which these are asked, and those that match in none.
func tiersOf(e *explain.Explanation) (tiers []tier, others []explain.Candidate) {
	won := false
	for _, t := range match.Tiers() {
		next := tier{Name: t.String()}
		for _, c := range e.Candidates {
			if c.Tier == next.Name {
				next.Candidates = append(next.Candidates, c)
				next.Won = next.Won || c.Outcome == explain.OutcomeWinner
			}
		}
		switch {
		case len(next.Candidates) > 0:
		case won:
			next.Note = "not asked: a tier above has won"
		default:
			next.Note = "no config matches by it"
		}
		won = won || next.Won
		tiers = append(tiers, next)
	}
	for _, c := range e.Candidates {
		if c.Tier == "" {
			others = append(others, c)
		}
	}
	return tiers, others
}

// hostBoots adds the boots of a host, the newest with its peers.
func hostBoots(p *page, d *hostPage) {
	boots, err := status.Boots(p.ctx, p.ask, d.Host, maxBoots)
	if err != nil || len(boots) == 0 {
		return
	}
	lines, err := status.Timelines(p.ctx, p.ask, d.Host.Namespace, boots)
	if err != nil {
		return
	}
	d.Now, d.Earlier = timelineOf(lines[0], p.now), lines[1:]
}

// hostEvents adds the newest events of a host.
func hostEvents(p *page, d *hostPage) {
	list := &v1.EventList{}
	err := p.ask(p.ctx, client.Request{Resource: kinds.Events, Namespace: d.Host.Namespace, Query: eventsOf("BareMetalHost",
		d.Host.Name)}, list)
	if err != nil {
		return
	}
	d.Events = newestEvents(list.Items)
}

// newestEvents returns the newest events first, of a bounded number.
func newestEvents(events []v1.Event) []v1.Event {
	slices.SortStableFunc(events, func(a, b v1.Event) int { return b.LastTimestamp.Compare(a.LastTimestamp.Time) })
	return events[:min(len(events), maxEvents)]
}

// Labels are those of the host as a text: key=value, each on its own line.
func (d *hostPage) Labels() string {
	var lines []string
	for key, value := range d.Host.Spec.Labels {
		lines = append(lines, key+"="+value)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// ImageRef is the image of the host as namespace/name.
func (d *hostPage) ImageRef() string {
	if strings.Contains(d.Host.Spec.Image, "/") {
		return d.Host.Spec.Image
	}
	return d.Host.Namespace + "/" + d.Host.Spec.Image
}

// Release is that of the image that the host boots; "": not known.
func (d *hostPage) Release() string {
	if d.Answer == nil || d.Answer.Boot == nil {
		return ""
	}
	return d.Answer.Boot.Release
}

// Compare is the address of the differences of an earlier boot to the newest one.
func (d *hostPage) Compare(earlier *v1.Boot) string {
	return objectURL("boots", earlier.Namespace, earlier.Name) + "?with=" + url.QueryEscape(d.Now.Boot.Name)
}
