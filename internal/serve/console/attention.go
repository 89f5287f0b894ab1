package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/wording"
	"glowplug/internal/serve/console/live"
)

// maxProblems is how many hosts, configs, images and unknown machines the fleet lists, of each kind.
const maxProblems = 10

// problem is one line of what needs attention.
type problem struct {
	// Name is that of the object, and URL its page; "": it has none.
	Name, URL string
	// Since is when it began; zero: not known.
	Since time.Time
	// Text is the server's sentence.
	Text string
	// Adopt is true for an unknown machine.
	Adopt bool
}

// problems returns what needs attention, the newest first, and the number of hosts that are left out.
func problems(p *page, cells []live.Cell) (all []problem, hidden int) {
	all = append(all, serverProblems(p)...)
	hosts, hidden := hostProblems(p, cells)
	all = slices.Concat(all, hosts, configProblems(p), imageProblems(p), strangers(p))
	slices.SortStableFunc(all, func(a, b problem) int { return b.Since.Compare(a.Since) })
	return all, hidden
}

// hostProblems reads the hosts that need attention and that were seen last.
func hostProblems(p *page, cells []live.Cell) (all []problem, hidden int) {
	var failing []*live.Cell
	for i := range cells {
		if cells[i].Fails() {
			failing = append(failing, &cells[i])
		}
	}
	slices.SortStableFunc(failing, func(a, b *live.Cell) int { return b.Seen.Compare(a.Seen) })
	hidden = max(0, len(failing)-maxProblems)
	for _, c := range failing[:len(failing)-hidden] {
		host := &v1.BareMetalHost{}
		if p.get(kinds.BareMetalHosts, c.Namespace, c.Name, nil, host) != nil {
			continue // it is gone, or the user may not read it
		}
		found := problem{Name: c.Ref.String(), URL: objectURL("hosts", c.Namespace, c.Name)}
		attention := wording.StatusOf(host).Attention
		if len(attention) == 0 {
			continue
		}
		found.Text = strings.Join(attention, " · ")
		found.Since = lastFailure(host.Status.Conditions, c.Seen)
		all = append(all, found)
	}
	return all, hidden
}

// lastFailure is when the newest unmet condition became so; other where all are met.
func lastFailure(conditions []metav1.Condition, other time.Time) (at time.Time) {
	for _, c := range conditions {
		if c.Status == metav1.ConditionFalse && c.LastTransitionTime.After(at) {
			at = c.LastTransitionTime.Time
		}
	}
	if at.IsZero() {
		return other
	}
	return at
}

// failed selects the objects in phase Error.
var failed = url.Values{"fieldSelector": {"status.phase=" + v1.PhaseError}, "limit": {strconv.Itoa(maxProblems)}}

func configProblems(p *page) (all []problem) {
	each(p, kinds.IgnitionConfigs, failed, func(list *v1.IgnitionConfigList) {
		for _, c := range list.Items {
			all = append(all, failure("IgnitionConfig", "configs", &c.ObjectMeta, c.Status.Conditions, c.Status.ErrorMessage))
		}
	})
	return all
}

func imageProblems(p *page) (all []problem) {
	each(p, kinds.ISCSICdroms, failed, func(list *v1.ISCSICdromList) {
		for _, c := range list.Items {
			all = append(all, failure("ISCSICdrom", "images", &c.ObjectMeta, c.Status.Conditions, c.Status.ErrorMessage))
		}
	})
	return all
}

// failure is the problem of an object in phase Error, for the reason in message.
func failure(kind, pages string, o *metav1.ObjectMeta, conditions []metav1.Condition, message string) problem {
	return problem{
		Name: kind + " " + o.Namespace + "/" + o.Name, URL: objectURL(pages, o.Namespace, o.Name),
		Since: lastFailure(conditions, o.CreationTimestamp.Time), Text: "is Error: " + message,
	}
}

// strangers returns the unknown machines that asked last.
func strangers(p *page) (all []problem) {
	for _, m := range p.unknownMachines(maxProblems) {
		found := problem{Name: m.Name, URL: Prefix + "unknown", Adopt: true, Text: "unknown machine, asked " +
			wording.Count(int(m.Status.Count), "time", "times")}
		found.Since = m.Status.LastSeen.Time
		all = append(all, found)
	}
	return all
}

// serverProblems returns the parts of the server that are not ready, in the words of /readyz.
func serverProblems(p *page) (all []problem) {
	for _, part := range p.parts() {
		if !part.OK {
			all = append(all, problem{Name: "the server", URL: Prefix + "server", Since: p.now, Text: part.Name + ": " + part.Text})
		}
	}
	return all
}

// part is a part of the server in /readyz.
type part struct {
	Name, Text string
	OK         bool
}

// parts returns the parts of /readyz?verbose, each a line "[+]name ok" or "[-]name failed: reason".
func (p *page) parts() (parts []part) {
	answer := httptest.NewRecorder()
	p.server.opts.Ready.ServeHTTP(answer, (&http.Request{
		Method: http.MethodGet, URL: &url.URL{Path: "/readyz", RawQuery: "verbose"}, Header: http.Header{}, Host: "console",
	}).WithContext(p.ctx))
	for line := range strings.Lines(answer.Body.String()) {
		line = strings.TrimSpace(line)
		sign, rest, ok := strings.Cut(line, "]")
		if !ok || sign != "[+" && sign != "[-" {
			continue
		}
		name, text, _ := strings.Cut(rest, " ")
		parts = append(parts, part{name, text, sign == "[+"})
	}
	return parts
}
