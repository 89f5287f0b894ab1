package console

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
)

const (
	// maxListedEvents is how many events the page lists, and maxReadEvents how many it reads of a namespace, or of all,
	// to find the newest.
	maxListedEvents = 200
	maxReadEvents   = 10_000
	eventsAtOnce    = 1000
)

// eventFilter is what the list of events shows. It stands in the URL.
type eventFilter struct {
	Namespace, Type, Reason, Kind, Name string
}

func eventFilterOf(q url.Values) eventFilter {
	text := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	f := eventFilter{text("ns"), text("type"), text("reason"), text("kind"), text("name")}
	if namespace, name, ok := strings.Cut(f.Name, "/"); ok {
		f.Namespace, f.Name = namespace, name
	}
	return f
}

// Selector is the filter as a field selector of the API; "": it selects all of the namespace.
func (f *eventFilter) Selector() string {
	selected := fields.Set{}
	for field, value := range map[string]string{
		"type": f.Type, "reason": f.Reason, "involvedObject.kind": f.Kind, "involvedObject.name": f.Name,
	} {
		if value != "" {
			selected[field] = value
		}
	}
	return selected.AsSelector().String()
}

// eventsPage is what the template of the events shows.
type eventsPage struct {
	Filter                     eventFilter
	Namespaces, Reasons, Kinds []string
	Events                     []v1.Event
	// Matching are the events that match the filter, and Total all that the user may list.
	Matching int
	Total    int64
	// Unread is true where not all were read, so that newer ones may be missing.
	Unread   bool
	Problems []string
}

// events lists events, the newest first.
func (s *Server) events(w http.ResponseWriter, r *http.Request, p *page) {
	p.Title, p.Section = "Events", "events"
	data := &eventsPage{Filter: eventFilterOf(r.URL.Query()), Kinds: eventKinds}
	readable := p.namespaces(kinds.Events)
	data.Namespaces = readable
	if slices.Equal(readable, []string{""}) {
		data.Namespaces = p.namespaceNames(kinds.Events)
	}
	asked := readable
	if data.Filter.Namespace != "" || len(readable) == 0 { // the API says why nothing can be read
		asked = []string{data.Filter.Namespace}
	}
	reasons := map[string]bool{}
	for _, namespace := range asked {
		readEvents(p, data, namespace, maxReadEvents/len(asked))
	}
	for _, namespace := range readable {
		data.Total += objectCount(p, kinds.Events, namespace)
	}
	slices.SortStableFunc(data.Events, func(a, b v1.Event) int { return b.LastTimestamp.Compare(a.LastTimestamp.Time) })
	for i := range data.Events {
		reasons[data.Events[i].Reason] = true
	}
	data.Reasons, data.Matching = slices.Sorted(maps.Keys(reasons)), len(data.Events)
	data.Events = data.Events[:min(maxListedEvents, data.Matching)]
	p.show(w, "events", data)
}

// eventKinds are the kinds of objects that events are about.
var eventKinds = func() (names []string) {
	for _, kind := range kinds.All() {
		if kind.Resource != kinds.Events {
			names = append(names, kind.Name)
		}
	}
	slices.Sort(names)
	return names
}()

// readEvents adds the events of a namespace that match the filter.
func readEvents(p *page, data *eventsPage, namespace string, most int) {
	query := url.Values{"limit": {strconv.Itoa(eventsAtOnce)}, "fieldSelector": {data.Filter.Selector()}}
	for read := 0; ; {
		list := &v1.EventList{}
		if err := p.get(kinds.Events, namespace, "", query, list); err != nil {
			data.Problems = append(data.Problems, sentence(err))
			return
		}
		data.Events = append(data.Events, list.Items...)
		read += len(list.Items)
		switch {
		case list.Continue == "":
			return
		case read >= most:
			data.Unread = true
			return
		}
		query.Set("continue", list.Continue)
	}
}

// Hidden is the number of events that the filter hides.
func (d *eventsPage) Hidden() int64 {
	if d.Filter == (eventFilter{}) {
		return 0 // what came since is not hidden
	}
	return max(0, d.Total-int64(d.Matching))
}
