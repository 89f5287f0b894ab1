// Package impact predicts what a set of changes does to the hosts. It asks the one decision what
// the machine of each host receives and boots, with the changes and without them, so that it says
// what the server would answer.
package impact

import (
	"context"
	"fmt"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/model"
)

// Effect is what changes for a host.
type Effect string

// The effects. Those up to Unbootable are changes for the worse.
const (
	// Unmatched: no config of a type matches a host that had one of it.
	Unmatched Effect = "Unmatched"
	// Unrecognised: no machine is recognised as a host any more.
	Unrecognised Effect = "Unrecognised"
	// Unserved: the config of a host cannot be served to it.
	Unserved Effect = "Unserved"
	// Unreadable: the image of a host does not read its config in any version.
	Unreadable Effect = "Unreadable"
	// Ambiguous: only their age decides between two configs, or between two hosts with one address.
	Ambiguous Effect = "Ambiguous"
	// Stale: a host goes on to receive an earlier compilation of its config.
	Stale Effect = "Stale"
	// Unbootable: the image of a host cannot be booted, also not once it is ready.
	Unbootable Effect = "Unbootable"
	// Unknown: it is not known what a host receives.
	Unknown Effect = "Unknown"
	// ConfigChanged: a host receives another config.
	ConfigChanged Effect = "ConfigChanged"
	// ContentChanged: a host receives other bytes of the same config.
	ContentChanged Effect = "ContentChanged"
	// AddressChanged: a host is recognised by other addresses, names or sources.
	AddressChanged Effect = "AddressChanged"
	// BootChanged: a host boots another image, or another script, or an image that changes.
	BootChanged Effect = "BootChanged"
	// Mended: what prevented a host from receiving a config, or from booting, has ended.
	Mended Effect = "Mended"
	// HostAdded and HostDeleted: a host is new, or is deleted.
	HostAdded   Effect = "HostAdded"
	HostDeleted Effect = "HostDeleted"
)

// effects are all effects, the worst first.
var effects = []Effect{
	Unmatched, Unrecognised, Unserved, Unreadable, Ambiguous, Stale, Unbootable, Unknown, ConfigChanged, ContentChanged,
	BootChanged, AddressChanged, Mended, HostDeleted, HostAdded,
}

// IsWorse reports whether an effect is a change for the worse.
func (e Effect) IsWorse() bool {
	switch e {
	case Unmatched, Unrecognised, Unserved, Unreadable, Ambiguous, Stale, Unbootable:
		return true
	}
	return false
}

// Impact is what a set of changes does to the hosts.
type Impact struct {
	// Hosts is the number of hosts, with those that the changes add and delete, and Changed the
	// number of those for which anything changes.
	Hosts   int `json:"hosts"`
	Changed int `json:"changed"`
	// Counts has the number of hosts with each effect. A host may have several.
	Counts map[Effect]int `json:"counts"`
	// Groups are the hosts with the same effects, the worst first.
	Groups []Group `json:"groups"`
	// More is the number of hosts in groups that are left out.
	More int `json:"more,omitempty"`
	// Strangers is the change for machines that are no known hosts; nil: there is none.
	Strangers *Pair `json:"unknownMachines,omitempty"`

	before, after *side
}

// Group is hosts with the same effects and, where differences are asked for, the same difference.
type Group struct {
	Effects []Effect `json:"effects"`
	Hosts   int      `json:"hosts"`
	// Names are the first hosts by name, each as namespace/name.
	Names []string `json:"names"`
	// Answers are the answers before and after, the most frequent first, and MoreAnswers the
	// number of those that are left out.
	Answers     []Pair `json:"answers"`
	MoreAnswers int    `json:"moreAnswers,omitempty"`
	// Difference is the difference of the bytes, in the form of a text.
	Difference string `json:"difference,omitempty"`

	refs []model.Ref
}

// Refs returns all hosts of a group, in the order of their names.
func (g *Group) Refs() []model.Ref { return g.refs }

// Pair is an answer before and after the changes; nil: there is no such host.
type Pair struct {
	Before *Answer `json:"before"`
	After  *Answer `json:"after"`
	Hosts  int     `json:"hosts,omitempty"`
}

// Answer is what the machine of a host receives and boots.
type Answer struct {
	// Host is the host that its machine is taken for, where that is another one.
	Host string `json:"host,omitempty"`
	// Configs are the answers to its requests for configs, one for each type that matters.
	Configs []Served `json:"configs,omitempty"`
	// Boot is what it boots; nil where the changes do not concern that.
	Boot *Booted `json:"boot,omitempty"`
}

// Served is the answer to the request for a config.
type Served struct {
	// Config is namespace/name, and Type its type; "": none matches.
	Config string `json:"name,omitempty"`
	Type   string `json:"type,omitempty"`
	// Match is the rule by which it matches.
	Match string `json:"match,omitempty"`
	// Status is that of the answer; 0 where it is not known.
	Status int `json:"status"`
	// Hash and IgnitionVersion are those of the bytes, with placeholders for the values of Secrets.
	Hash            string `json:"hash,omitempty"`
	IgnitionVersion string `json:"ignitionVersion,omitempty"`
	Stale           bool   `json:"stale,omitempty"`
	// SecretsChanged is true for an answer that differs from the one before in values of Secrets alone.
	SecretsChanged bool `json:"secretsChanged,omitempty"`
	// Error says why nothing is served, for the first host.
	Error string `json:"error,omitempty"`
}

// Booted is what a machine boots.
type Booted struct {
	// Local is true for a machine that boots its disk.
	Local bool   `json:"local,omitempty"`
	Image string `json:"image,omitempty"`
	// Script is true where it boots its own script, or that of its namespace.
	Script bool `json:"script,omitempty"`
	// Pending is true where the image is not ready yet.
	Pending bool   `json:"pending,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Options say what an impact is of.
type Options struct {
	// Decider decides, by its rules. Its inventory does not count.
	Decider *decide.Decider
	// Before has the objects without the changes.
	Before  model.View
	Changes *model.Changes
	// Secrets are the values of Secrets; nil: none is known, and placeholders stand for all.
	Secrets *Secrets
	// Order has the changed configs in the order in which they are written: where a merge over
	// layers fails in the end, an earlier one may be served. Configs that it lacks are written last.
	Order []model.Ref
	// Pending are configs among the changes whose result is not known, such as those that are
	// still being compiled.
	Pending map[model.Ref]bool
	// Merging ends the merging of configs over changed layers: what is left then is unknown; nil:
	// the context of New.
	Merging context.Context
	// Pause is called often while the impact is computed, so that others can work; nil: nothing is.
	Pause func()
	// Show has the differences of the bytes computed. MayShow reports whether those of a config may be
	// shown; nil: those of all may.
	Show    bool
	MayShow func(view model.View, config *model.Config) bool
}

// New computes the impact of changes. It needs some microseconds for each host that the changes
// may concern, some milliseconds for each config over a changed layer, and the same for each
// rendering of a template; of these there is a bound, and what is beyond it is unknown. A rendering
// ends with ctx as well, but for a compilation that has begun. The error is that of ctx.
func New(ctx context.Context, o Options) (*Impact, error) {
	if o.Pause == nil {
		o.Pause = func() {}
	}
	if o.Merging == nil {
		o.Merging = ctx
	}
	a := newAssessor(ctx, &o)
	found, total, err := a.candidates(ctx, o.Pause)
	if err != nil {
		return nil, err
	}
	g := newGroups(a)
	for i := range found {
		o.Pause() // the rendering of a template may take long
		g.add(&found[i])
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the answers to %d hosts were not compared in time: %w", len(found), ctx.Err())
		}
	}
	g.mayShow = o.MayShow
	strangers := a.strangers()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the answers to unknown machines were not compared in time: %w", ctx.Err())
	}
	result := g.result(ctx, o.Show)
	result.Hosts, result.Strangers = total, strangers
	result.before, result.after = &a.before, &a.after
	return result, nil
}
