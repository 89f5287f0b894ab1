// Package remote gives the config that a machine ends up with: it fetches the configs
// that one names (ignition.config.merge, replace and append), as Ignition does, and
// merges them. Nothing is fetched but from where an allow-list says so, which is held
// against the address that is dialled; the depth, the number and the size of what is
// fetched are bounded, and so is the time.
package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"glowplug/internal/domain/ignition"
)

// session renders one config.
type session struct {
	fetcher
	// bundles has the certificate authorities that have been fetched, by their URL.
	bundles map[string][]byte
	// chain has the configs from the first to the one that is being fetched, redacted,
	// and sources their URLs.
	chain, sources []string
	// configsLeft and bytesLeft are what may still be fetched.
	configsLeft, bytesLeft int
}

// convert returns a config in a spec version, as a machine of that version is served it.
func convert(spec string, config []byte) ([]byte, error) {
	if !ignition.IsVersion(spec) {
		return nil, failf(Malformed, "there is no Ignition spec %.40q: there are %s", spec, strings.Join(ignition.Versions(), ", "))
	}
	out, losses, err := ignition.Convert(config, spec)
	if err != nil {
		return nil, failf(Invalid, "%v", err)
	}
	if len(losses) > 0 {
		message := fmt.Sprintf("it cannot be converted to spec %s: %s", spec, losses[0])
		if len(losses) > 1 {
			message += fmt.Sprintf("; and %d more fields", len(losses)-1)
		}
		return nil, failf(Unfit, "%s", message)
	}
	return out, nil
}

// renderFirst renders the config at the top of the chain.
func (s *session) renderFirst(ctx context.Context, config []byte) ([]byte, error) {
	first, err := s.parse(config)
	if err != nil {
		return nil, err
	}
	if err := s.use(ctx, &first.fetching); err != nil {
		return nil, err
	}
	out, err := s.render(ctx, first)
	if err != nil {
		return nil, err
	}
	fetching, err := ignition.FetchingOf(out)
	if err != nil {
		return nil, failf(Invalid, "%v", err)
	}
	if err := s.use(ctx, &fetching); err != nil {
		return nil, err
	}
	var authorities [][]byte
	for i := range fetching.Authorities {
		bundle, err := s.authority(ctx, &fetching.Authorities[i])
		if err != nil {
			return nil, err
		}
		authorities = append(authorities, bundle)
	}
	if out, err = ignition.Attach(out, authorities); err != nil {
		return nil, failf(Invalid, "%v", err)
	}
	if _, found := ignition.Validate(out); found.HasError() {
		return nil, failf(Invalid, "what the configs come to is no valid config, and a machine fails on it: %s",
			found.Summary())
	}
	return out, nil
}

// part is a config on its way into another.
type part struct {
	// config is without references to others, which are in fetching.
	config   []byte
	fetching ignition.Fetching
}

// parse reads a config that the machine was given.
func (s *session) parse(config []byte) (*part, error) {
	if len(config) == 0 {
		return nil, failf(Invalid, "it is empty: a machine would go on with an empty config")
	}
	version, found := ignition.Validate(config)
	if found.HasError() {
		return nil, failf(Invalid, "it is no valid config: %s", found.Summary())
	}
	if !ignition.Reads(s.client.spec, version) {
		return nil, failf(Invalid, "it is of spec %s, and a machine that reads spec %s fails on it", version, s.client.spec)
	}
	p := &part{}
	var err error
	if p.fetching, err = ignition.FetchingOf(config); err == nil {
		p.config, err = ignition.Detach(config)
	}
	if err != nil {
		return nil, failf(Invalid, "%v", err)
	}
	return p, nil
}

// render follows the references of a config: another replaces it, or others are
// merged into it, each rendered before. What a config says about fetching holds for
// those after it, at the points where Ignition takes it over.
func (s *session) render(ctx context.Context, p *part) ([]byte, error) {
	if ref := p.fetching.Replace; ref != nil {
		return s.follow(ctx, ref, func(child *part) error { return s.use(ctx, &child.fetching) })
	}
	merged := p.config
	for i := range p.fetching.Children {
		rendered, err := s.follow(ctx, &p.fetching.Children[i], func(child *part) error {
			return s.enter(ctx, merged, child.config)
		})
		if err != nil {
			return nil, err
		}
		if merged, err = s.merge(merged, rendered); err != nil {
			return nil, err
		}
	}
	return merged, nil
}

// enter takes over the settings that a config and the next to be merged into it come
// to, before that one's own references are followed.
func (s *session) enter(ctx context.Context, merged, child []byte) error {
	var headings [2][]byte
	for i, config := range [][]byte{merged, child} {
		var err error
		if headings[i], err = ignition.Heading(config); err != nil {
			return failf(Invalid, "%v", err)
		}
	}
	both, err := s.merge(headings[0], headings[1])
	if err != nil {
		return err
	}
	fetching, err := ignition.FetchingOf(both)
	if err != nil {
		return failf(Invalid, "%v", err)
	}
	return s.use(ctx, &fetching)
}

// follow fetches a config and renders it; before, enter takes over its settings.
func (s *session) follow(ctx context.Context, ref *ignition.Reference, enter func(*part) error) ([]byte, error) {
	s.chain = append(s.chain, redact(ref.Source))
	s.sources = append(s.sources, ref.Source)
	switch {
	case !isData(ref.Source) && slices.Contains(s.sources[:len(s.sources)-1], ref.Source):
		return nil, failf(Invalid, "it names itself, by way of the configs before it: a machine would go round for ever")
	case len(s.chain) > MaxDepth+1:
		return nil, failf(Invalid, "configs name configs more than %d deep", MaxDepth)
	case s.configsLeft == 0:
		return nil, failf(Invalid, "more than %d configs are named", MaxConfigs)
	}
	if s.configsLeft--; ctx.Err() != nil {
		return nil, failf(TimedOut, "there was no time left for it")
	}
	content, err := s.fetch(ctx, ref)
	if err != nil {
		return nil, err
	}
	child, err := s.parse(content)
	if err != nil {
		return nil, err
	}
	if err := enter(child); err != nil {
		return nil, err
	}
	rendered, err := s.render(ctx, child)
	if err != nil {
		return nil, err
	}
	// Left as it is after an error, which is about the whole chain.
	s.chain = s.chain[:len(s.chain)-1]
	s.sources = s.sources[:len(s.sources)-1]
	return rendered, nil
}

// merge merges a config over another by the rules of their major.
func (s *session) merge(parent, child []byte) ([]byte, error) {
	merged, err := ignition.MergeAll([]ignition.Part{{Name: "the config so far", Config: parent}, {Name: "this one",
		Config: child}})
	if err != nil {
		return nil, failf(Invalid, "merging: %v", err)
	}
	return merged.Config, nil
}
