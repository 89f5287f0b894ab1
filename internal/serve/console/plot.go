package console

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/serve/console/live"
)

const (
	plotMinutes = 60
	plotHeight  = 56
	// maxPlotted bounds the boots of the plot.
	maxPlotted = 500
)

// plot has the boots of the last hour by the minute in which they began.
type plot struct {
	Boots, Failed int
	// IsCut is true where there are more boots than were read.
	IsCut bool
	Bars  []bar
	Marks []mark
}

// bar is one minute. X, Y and Height are in the units of the drawing.
type bar struct {
	X, Y, Height, FailedY, FailedHeight int
	Title                               string
}

// mark is a write of a user beside the boots.
type mark struct {
	X     int
	Title string
}

// write is a write of a user, as it is listed.
type write struct {
	live.Write
	Done, Kind, URL string
}

// done has what a user has done by a verb.
var done = map[string]string{"create": "created", "update": "changed", "patch": "changed", "delete": "deleted"}

// pagesOf has the folder of the pages of a resource.
var pagesOf = map[string]string{
	kinds.BareMetalHosts: "hosts", kinds.IgnitionConfigs: "configs", kinds.ISCSICdroms: "images",
}

// bootsPlot reads the newest boots, and marks writes beside them.
func bootsPlot(p *page, writes []write) *plot {
	began, failed := [plotMinutes]int{}, [plotMinutes]int{}
	out := &plot{}
	query := url.Values{"limit": {strconv.Itoa(maxPlotted)}}
	each(p, kinds.Boots, query, func(list *v1.BootList) {
		for i := range list.Items {
			b, m := &list.Items[i], -1
			if b.Begun != nil {
				m = minute(p, b.Begun.Time)
			}
			out.IsCut = out.IsCut || list.Continue != "" && i == len(list.Items)-1 && m >= 0
			if m < 0 {
				continue
			}
			began[m]++
			out.Boots++
			if b.Outcome == v1.OutcomeFailed {
				failed[m]++
				out.Failed++
			}
		}
	})
	highest := max(1, slices.Max(began[:]))
	for m, n := range began {
		if n == 0 {
			continue
		}
		height, red := max(2, n*plotHeight/highest), failed[m]*plotHeight/highest
		title := p.now.Add(time.Duration(m-plotMinutes+1)*time.Minute).UTC().Format("15:04") + ": " + strconv.Itoa(n) +
			" boots, " + strconv.Itoa(failed[m]) + " failed"
		out.Bars = append(out.Bars, bar{m * 8, plotHeight - height, height, plotHeight - red, red, title})
	}
	for _, w := range writes {
		if m := minute(p, w.At); m >= 0 {
			title := w.At.UTC().Format("15:04") + " " + w.User + " " + w.Done + " " + w.Kind + " " + w.Ref.String()
			out.Marks = append(out.Marks, mark{m*8 + 3, title})
		}
	}
	return out
}

// minute is the bar of a time; negative: it is not in the plot.
func minute(p *page, at time.Time) int {
	ago := int(p.now.Sub(at) / time.Minute)
	if ago < 0 || ago >= plotMinutes {
		return -1
	}
	return plotMinutes - 1 - ago
}

// maxListedWrites is how many writes the fleet lists.
const maxListedWrites = 8

// writes returns the newest writes of objects that the user may list.
func writes(p *page) (all []write) {
	for _, w := range p.server.opts.Live.Writes() {
		if len(all) >= maxListedWrites {
			break
		}
		if !p.may(w.Resource, w.Namespace) {
			continue
		}
		listed := write{Write: w, Done: cmp.Or(done[w.Verb], w.Verb), Kind: w.Resource}
		if kind := kinds.Of(w.Resource); kind != nil {
			listed.Kind = kind.Name
		}
		if at := pagesOf[w.Resource]; at != "" && w.Verb != "delete" {
			listed.URL = objectURL(at, w.Namespace, w.Name)
		}
		all = append(all, listed)
	}
	return all
}
