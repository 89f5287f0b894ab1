package impact

import (
	"strings"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
)

// side is the objects without the changes, or with them.
type side struct {
	sideOptions
	view    model.View
	decider explain.Fixed
	// unknown are the configs whose result is not known.
	unknown map[model.Ref]bool
	// vault has the values of Secrets; nil: they are not known.
	vault Vault
	// renderings renders templates.
	renderings *renderings
	// answers has the answer to the first host that receives a config, for all that read the same
	// Ignition version.
	answers map[answerKey]served
	// without has the view without a config, to find the one that would take its place.
	without map[model.Ref]model.View
}

type sideOptions struct {
	// concerned has the types of config whose answers may change.
	concerned [len(types)]bool
	// boots is true where what machines boot may change, and ties where configs may match equally
	// that did not before.
	boots, ties bool
}

// answerKey is what the answer to a host depends on where its config is no template.
type answerKey struct {
	config *model.Config
	reads  string
}

func newSide(d *decide.Decider, view model.View, unknown map[model.Ref]bool, options sideOptions,
	ended func() bool, earlier earlierRendering, vault Vault) side {
	r := newRenderings(view, ended, earlier)
	r.vault, r.server = vault, serverOf(d)
	return side{
		sideOptions: options, view: view, decider: explain.Fixed{Decider: d.On(view, r)}, unknown: unknown,
		vault: vault, renderings: r, answers: map[answerKey]served{}, without: map[model.Ref]model.View{},
	}
}

// outcome is what the machine of a host receives and boots; the zero value is that of no host.
type outcome struct {
	exists bool
	// machine is the other host that the machine is taken for.
	machine model.Ref
	// recognised is true where a machine can be recognised as the host.
	recognised bool
	// shares is true for a host that shares an address with another one.
	shares bool
	// configs are the answers to the requests for each type of config that is concerned.
	configs [len(types)]served
	// tied is true for a type where a config matches equally that is younger than the received one.
	tied [len(types)]bool
	boot booted
}

// served is the answer to a request for a config.
type served struct {
	config  model.Ref
	status  int
	version string
	// hash is that of the bytes, or of what a template that is not rendered is rendered from.
	hash string
	// values identifies the bytes with the values of Secrets; "": there are none in them.
	values string
	stale  bool
	// unknown is true where the bytes are not known.
	unknown bool
}

// content identifies the bytes that the machine receives: two keys of a Secret may have one value.
func (s *served) content() string {
	if s.values != "" {
		return s.values
	}
	return s.hash
}

// booted is what a machine boots.
type booted struct {
	local, fails bool
	image        model.Ref
	// generation is that of the image.
	generation   int64
	script, args string
	// login identifies the credentials for the image.
	login string
}

// outcome returns what the machine of a host receives and boots, except for ties; h may be nil.
func (s *side) outcome(h *model.Host, shares bool) outcome {
	if h == nil {
		return outcome{}
	}
	o := outcome{exists: true, shares: shares, recognised: !s.boots || decide.Unrecognised(s.decider.Decider, h) == ""}
	for i, typ := range types {
		machine, config := s.assigned(h, typ, shares)
		if machine != h {
			o.machine = machine.Ref
		}
		if s.concerned[i] {
			o.configs[i] = s.served(h, config, typ, shares)
		}
	}
	if s.boots {
		o.boot = s.booted(h)
	}
	return o
}

// assigned returns the config of a type that the machine of a host receives, and the host that the
// machine is taken for.
func (s *side) assigned(h *model.Host, typ string, shares bool) (machine *model.Host, config *model.Config) {
	if !shares {
		return h, s.decider.Assigned(s.view, h, typ)
	}
	decision := s.decider.Receives(h, typ)
	if machine = decision.Host; machine == nil {
		machine = h
	}
	if decision.Config != nil {
		config = s.view.Config(decision.Config.Ref) // not its rendering
	}
	return machine, config
}

// served returns the answer to a host whose machine receives a config, which may be nil.
func (s *side) served(h *model.Host, config *model.Config, typ string, shares bool) served {
	switch {
	case config != nil && s.unknown[config.Ref]:
		return served{config: config.Ref, unknown: true}
	case shares || config != nil && config.Template:
		return s.decided(h, typ)
	case config == nil:
		return served{status: fault.NoMatch.Status()}
	}
	key := answerKey{config, explain.MaxIgnition(s.view, h)}
	answer, known := s.answers[key]
	if !known {
		answer = s.decided(h, typ)
		s.answers[key] = answer
	}
	return answer
}

// decided returns the answer to a host.
func (s *side) decided(h *model.Host, typ string) served {
	decision := s.decider.Receives(h, typ)
	answer := answerOf(&decision)
	if decision.Err == errNotRendered {
		answer.status, answer.unknown, answer.hash = 0, true, s.renderings.lastKey
	}
	return answer
}

func answerOf(decision *decide.ConfigDecision) served {
	a := served{status: statusOf(decision.Err)}
	if decision.Config == nil {
		return a
	}
	a.config = decision.Config.Ref
	if decision.Err == nil {
		a.hash, a.version, a.stale = decision.Config.Hash, decision.Config.IgnitionVersion, decision.Config.Stale
		if form := decision.Form; form != nil {
			a.hash, a.version = form.Hash, form.Version
		}
		if decision.Config.Revealed {
			a.values = decision.Config.ETag
			if decision.Form != nil {
				a.values = decision.Form.ETag
			}
		}
	}
	return a
}

// findTies finds out for which types of config a tie decides what the machine of a host receives.
func (s *side) findTies(o *outcome, h *model.Host) {
	if !s.ties || h == nil {
		return
	}
	for i, typ := range types {
		if !s.concerned[i] {
			continue
		}
		if machine, config := s.assigned(h, typ, o.shares); config != nil {
			o.tied[i] = s.isTied(machine, config)
		}
	}
}

// isTied reports whether a host matches another config as it matches the one that it receives.
func (s *side) isTied(h *model.Host, config *model.Config) bool {
	without, known := s.without[config.Ref]
	if !known {
		without = s.view.With(&model.Changes{Configs: map[model.Ref]*model.Config{config.Ref: nil}})
		s.without[config.Ref] = without
	}
	return explain.RunnerUp(s.decider.Decider, without, h, config) != nil
}

// booted returns what the machine of a host boots.
func (s *side) booted(h *model.Host) booted {
	decision := s.decider.Boots(h)
	if decision.Err != nil && !decision.Awaits {
		return booted{fails: true}
	}
	b := booted{local: decision.Local, script: decision.Script}
	if image := decision.Image; image != nil {
		b.image, b.generation = image.Ref, image.Generation
		b.args = strings.Join(decision.Args, " ")
		var err error
		if b.login, err = s.login(image); err != nil {
			return booted{fails: true}
		}
	}
	return b
}

// statusOf is the status of an answer with an error, or without one where it is nil.
func statusOf(err *fault.Error) int {
	if err == nil {
		return ok
	}
	return err.Kind.Status()
}

// ok is the status of an answer without an error.
const ok = 200
