package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/wording"
	"glowplug/internal/status"
)

const (
	// maxGiven bounds the bytes of a config or a script that a page shows.
	maxGiven = 256 << 10
	// maxOffered bounds the boots that are offered for a comparison.
	maxOffered = 20
)

// bootPage is what the template of a boot shows.
type bootPage struct {
	bootRow
	Line  *timeline
	Facts []factRow
	// HostGone says why the host has no page; "": it has one.
	HostGone string
	Given    []given
	// Others are boots of the same host.
	Others []bootRow
	With   *comparison
	// WithProblem says why there is no comparison.
	WithProblem string
	Command     string
}

// factRow is what a machine claimed, and what of it was believed.
type factRow struct{ Name, Claimed, Believed string }

// given is a part of what a machine was given.
type given struct {
	Name, Part string
	// Text are the bytes, and Problem why they are not shown.
	Text, Problem string
	Bytes         int64
	// IsLong is true where they are too many to be shown, and IsLaidOut where Text has other blanks.
	IsLong, IsLaidOut bool
	// Note is about marks in the bytes.
	Note string
}

// boot shows one boot.
func (s *Server) boot(w http.ResponseWriter, r *http.Request, p *page) {
	namespace, name := r.PathValue("ns"), r.PathValue("name")
	p.Title, p.Section = namespace+"/"+name, "boots"
	b := &v1.Boot{}
	if err := p.get(kinds.Boots, namespace, name, nil, b); err != nil {
		p.fail(w, "Boot "+namespace+"/"+name, err)
		return
	}
	data := &bootPage{bootRow: bootRow{b, p.now}, Line: peersTimeline(p, b), Facts: factsOf(b), HostGone: hostGone(p, b)}
	data.Command = "glowplug replay " + quoted(namespace+"/"+name)
	if p.Wants("given") {
		for _, part := range []given{{Name: "Config", Part: status.PartConfig}, {Name: "Script", Part: status.PartScript}} {
			data.Given = append(data.Given, readGiven(p, b, part))
		}
	}
	if with := strings.TrimSpace(r.URL.Query().Get("with")); with != "" {
		var err error
		if data.With, err = compare(p, b, with); err != nil {
			data.WithProblem = sentence(err)
		}
	}
	data.Others = otherBoots(p, b)
	p.show(w, "boot", data)
}

// peersTimeline is a boot beside its peers, or by itself where these cannot be read.
func peersTimeline(p *page, b *v1.Boot) *timeline {
	lines, err := status.Timelines(p.ctx, p.ask, b.Namespace, []v1.Boot{*b})
	if err != nil {
		return timelineOf(wording.TimelineOf(b, nil), p.now)
	}
	return timelineOf(lines[0], p.now)
}

// factsOf are the facts of a boot by their names.
func factsOf(b *v1.Boot) (rows []factRow) {
	if b.Facts == nil {
		return nil
	}
	all := maps.Clone(b.Facts.Believed)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, b.Facts.Claimed)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		rows = append(rows, factRow{name, b.Facts.Claimed[name], b.Facts.Believed[name]})
	}
	return rows
}

// hostGone says why a boot has no host any more; "": it has one, or had none.
func hostGone(p *page, b *v1.Boot) string {
	if b.Host == "" {
		return ""
	}
	host := &v1.BareMetalHost{}
	err := p.get(kinds.BareMetalHosts, b.Namespace, b.Host, nil, host)
	switch {
	case client.Code(err) == http.StatusNotFound:
		return "its host is gone: " + sentence(err)
	case err == nil && b.HostUID != "" && host.UID != b.HostUID:
		return "its host is gone, and another one has the name since " +
			host.CreationTimestamp.UTC().Format("2006-01-02 15:04") + " UTC"
	}
	return ""
}

// readGiven reads a part of what a machine was given.
func readGiven(p *page, b *v1.Boot, part given) given {
	body, err := status.Replay(p.ctx, p.ask, b.Namespace, b.Name, part.Part)
	part.Bytes = int64(len(body))
	shown := laidOut(body)
	switch {
	case err != nil:
		part.Problem = sentence(err)
	case len(shown) > maxGiven:
		part.IsLong = true
	default:
		part.Text, part.IsLaidOut = visibleLines(string(shown)), len(shown) != len(body)
	}
	if status.IsMarked(body) {
		part.Note = status.Marked
	}
	return part
}

// laidOut is JSON on lines that people can read, and any other text as it is.
func laidOut(body []byte) []byte {
	var out bytes.Buffer
	if len(body) > maxGiven || json.Indent(&out, body, "", "  ") != nil {
		return body
	}
	return out.Bytes()
}

// Download is the query of the bytes as a file.
func (g given) Download() string { return "/rendered?part=" + g.Part }

// otherBoots are the newest other boots of the host of a boot.
func otherBoots(p *page, b *v1.Boot) (others []bootRow) {
	if b.Host == "" {
		return nil
	}
	host := &v1.BareMetalHost{}
	host.Namespace, host.Name = b.Namespace, b.Host
	boots, _ := status.Boots(p.ctx, p.ask, host, maxOffered) // else there are none to compare with
	for i := range boots {
		if boots[i].Name != b.Name && boots[i].Begun != nil {
			others = append(others, bootRow{&boots[i], p.now})
		}
	}
	return others
}

// comparison is what differs between two boots, the older one before.
type comparison struct {
	*wording.BootDifference
	Before, After *timeline
	Lines         []diffLine
	Command       string
}

// diffLine is a line of a difference, with the class of the style sheet.
type diffLine struct{ Class, Text string }

// compare compares a boot with another one of its namespace.
func compare(p *page, b *v1.Boot, with string) (*comparison, error) {
	if with == b.Name {
		return nil, errors.New("a boot does not differ from itself: choose another one")
	}
	before, after := &v1.Boot{}, b
	if err := p.get(kinds.Boots, b.Namespace, with, nil, before); err != nil {
		return nil, fmt.Errorf("%s is not compared with: %s", with, sentence(err))
	}
	if before.Begun != nil && after.Begun != nil && before.Begun.After(after.Begun.Time) {
		before, after = after, before
	}
	difference, err := status.Compare(p.ctx, p.ask, before, after)
	if err != nil {
		return nil, err
	}
	c := &comparison{BootDifference: difference, Before: peersTimeline(p, before), After: peersTimeline(p, after)}
	c.Command = "glowplug diff " + quoted(difference.Before) + " " + quoted(difference.After)
	for line := range strings.Lines(difference.Content) {
		c.Lines = append(c.Lines, diffLine{diffClasses[line[0]], visible(strings.TrimSuffix(line, "\n"))})
	}
	return c, nil
}

// diffClasses are the classes of lines by their first character.
var diffClasses = map[byte]string{'+': "added", '-': "removed"}

// rendered answers with the bytes that a machine was given, as a file: they may be of any kind, so that no browser
// shows them.
func (s *Server) rendered(w http.ResponseWriter, r *http.Request, p *page) {
	p.Section = "boots"
	namespace, name := r.PathValue("ns"), r.PathValue("name")
	part := cmp.Or(r.URL.Query().Get("part"), status.PartConfig)
	body, err := status.Replay(p.ctx, p.ask, namespace, name, part)
	if err != nil {
		p.fail(w, "Boot "+namespace+"/"+name, err)
		return
	}
	file := name + "-" + part + ".txt"
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": file}))
	_, _ = w.Write(body) // the client may have gone away
}

// List is the address of the boots of the same host, or of unknown machines.
func (d *bootPage) List() string {
	f := bootFilter{Namespace: d.Namespace, Host: d.Host, Unknown: d.Host == "", Last: allTime}
	return Prefix + "boots" + f.query()
}
