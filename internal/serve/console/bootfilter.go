package console

import (
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"

	v1 "glowplug/api/v1"
	"glowplug/internal/status"
)

// outcomeFailed is the filter of boots that ended badly, whatever their outcome is called.
const outcomeFailed = "failed"

// choice is one value of a filter.
type choice struct{ Value, Text string }

// bootOutcomes and bootTimes are the choices of the list of boots; the first one of bootTimes is the default.
var (
	bootOutcomes = []choice{
		{"", "all"}, {outcomeFailed, "failed, abandoned or without a config"}, {v1.OutcomeBooting, v1.OutcomeBooting},
		{v1.OutcomeProvisioning, v1.OutcomeProvisioning}, {v1.OutcomeProvisioned, v1.OutcomeProvisioned},
		{v1.OutcomeLocalBoot, v1.OutcomeLocalBoot}, {v1.OutcomeFailed, v1.OutcomeFailed},
		{v1.OutcomeAbandoned, v1.OutcomeAbandoned},
	}
	bootTimes = []choice{{"24h", "24 h"}, {"1h", "1 h"}, {"7d", "7 days"}, {allTime, "all time"}}
	bootAges  = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour}
)

// allTime is the choice of all boots, whenever they began.
const allTime = "all"

// bootFilter is what the list of boots shows. It stands in the URL.
type bootFilter struct {
	Namespace, Host, Outcome, Image, Last string
	// Unknown selects the boots of machines that are no hosts.
	Unknown bool
	// From is where the list goes on.
	From status.BootPlace
}

func bootFilterOf(q url.Values) bootFilter {
	text := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	f := bootFilter{
		Namespace: text("ns"), Host: text("host"), Outcome: text("outcome"), Image: text("image"), Last: text("last"),
		Unknown: text("unknown") != "", From: status.BootPlace{Continue: q.Get("continue"), Former: q.Get("former") != ""},
	}
	if namespace, host, ok := strings.Cut(f.Host, "/"); ok {
		f.Namespace, f.Host = namespace, host
	}
	if bootAges[f.Last] == 0 && f.Last != allTime {
		f.Last = bootTimes[0].Value
	}
	return f
}

// query is the filter in a URL.
func (f bootFilter) query() string {
	fields := map[string]string{
		"ns": f.Namespace, "host": f.Host, "outcome": f.Outcome, "image": f.Image, "last": f.Last,
		"continue": f.From.Continue,
	}
	for key, isSet := range map[string]bool{"unknown": f.Unknown, "former": f.From.Former} {
		if isSet {
			fields[key] = "1"
		}
	}
	return queryOf(fields)
}

// Hides reports whether the filter leaves boots out.
func (f bootFilter) Hides() bool {
	return f.Namespace+f.Host+f.Outcome+f.Image != "" || f.Unknown || f.Last != allTime && f.Last != bootTimes[0].Value
}

// search is the filter as the API has it.
func (f bootFilter) search(now time.Time) *status.BootSearch {
	selected, image := fields.Set{}, f.Image
	if f.Host != "" || f.Unknown {
		selected["host"] = f.Host // "" is that of unknown machines
	}
	if strings.Contains(image, "/") {
		selected["image"], image = image, ""
	}
	if f.Outcome != "" && f.Outcome != outcomeFailed {
		selected["outcome"] = f.Outcome
	}
	s := &status.BootSearch{Namespace: f.Namespace, Selector: selected.AsSelector().String(), From: f.From}
	if age := bootAges[f.Last]; age > 0 {
		s.Oldest = now.Add(-age)
	}
	s.IsWanted = func(b *v1.Boot) bool {
		return isOfImage(b, image) && (f.Outcome != outcomeFailed || status.HasFailed(b))
	}
	return s
}

// isOfImage reports whether a boot used an image with that name, in any namespace; "": any image.
func isOfImage(b *v1.Boot, image string) bool {
	return image == "" || b.Image != nil && strings.HasSuffix(b.Image.Name, "/"+image)
}
