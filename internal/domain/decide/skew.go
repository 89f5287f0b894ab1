package decide

import (
	"fmt"

	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
	"glowplug/internal/store/snapshot"
)

// Skew is a host whose image cannot read its config in any form: the machine would
// boot, ask for ever, and never be configured.
type Skew struct {
	Host, Image, Config snapshot.Ref
	// Release is what the image is of, MaxIgnition the newest Ignition spec version
	// that it reads.
	Release, MaxIgnition string
	// Needs is the spec version that the config is of.
	Needs string
}

// String is a sentence without its full stop.
func (s *Skew) String() string {
	release := ""
	if s.Release != "" {
		release = ", release " + s.Release + ","
	}
	return fmt.Sprintf("host %s boots image %s%s which reads Ignition spec %s at most,"+
		" and its config %s is of spec %s and cannot be given in any that it reads",
		s.Host, s.Image, release, s.MaxIgnition, s.Config, s.Needs)
}

// Changed are objects that are looked at as if they had been stored; each may be
// nil.
type Changed struct {
	Image  *snapshot.Image
	Config *snapshot.Config
}

const (
	// skewChunk is how many hosts are looked at while writers wait.
	skewChunk = 256
	// maxSkewed bounds the hosts that are looked at while whoever writes waits for the
	// answer. The others are told by their condition.
	maxSkewed = 20_000
)

// SkewOf looks at one host, which need not be stored; nil: its image reads its
// config, as far as is known of either. What a template comes to is not known.
func (d *Decider) SkewOf(h *snapshot.Host) *Skew {
	view := d.opts.Inventory.View()
	return d.skew(view, h, Changed{}, nil)
}

// SkewOfStored is SkewOf for a host that is stored: a template is rendered for it, and
// converted as it would be for the machine, which takes its time. It waits until gone
// is closed; known is false where the template cannot be rendered.
func (d *Decider) SkewOfStored(h *snapshot.Host, gone <-chan struct{}) (s *Skew, known bool) {
	view := d.opts.Inventory.View()
	image, config := d.booted(view, h, Changed{}, nil)
	if config == nil || !config.Template || d.opts.Renderer == nil {
		return skewed(h, image, config), true
	}
	rendered, err := d.opts.Renderer.Render(config, h, nil, Asker{Gone: gone})
	if err != nil {
		return nil, false
	}
	if d.isGiven(rendered, image.MaxIgnition) {
		return nil, true
	}
	return newSkew(h, image, rendered), true
}

// isGiven reports whether a machine that reads up to a version would be given a config.
func (d *Decider) isGiven(config *snapshot.Config, max string) bool {
	if ignition.Reads(max, config.IgnitionVersion) {
		return true
	}
	accept := ignition.ParseAccept(ignition.MediaType + ";version=" + max)
	wanted, _ := ignition.Negotiate(accept, "", "", config.IgnitionVersion)
	for _, version := range wanted {
		if d.forms.of(config, version).Bytes != nil {
			return true
		}
	}
	return len(wanted) == 0 // of which nothing is known
}

// Skews looks at all hosts with a change, and returns the first most that have a
// skew which is of the changed object's making, in no order.
func (d *Decider) Skews(c Changed, most int) (found []*Skew) {
	hosts := d.imaged(c)
	hosts = hosts[:min(len(hosts), maxSkewed)]
	alone := snapshot.Alone(c.Config)
	for len(hosts) > 0 && len(found) < most {
		n := min(skewChunk, len(hosts))
		view := d.opts.Inventory.View()
		for _, h := range hosts[:n] {
			if s := d.skew(view, h, c, alone); s != nil && len(found) < most {
				found = append(found, s)
			}
		}
		hosts = hosts[n:]
	}
	return found
}

// Misread reports whether a host boots an image that does not read a config of a spec
// version as it is.
func (d *Decider) Misread(version string) bool {
	return len(d.imaged(Changed{Config: &snapshot.Config{Servable: ignition.SpecsOf(version)}})) > 0
}

// imaged returns the hosts that boot an image of which it is known what it reads, and
// which does not read the changed config, where there is one.
func (d *Decider) imaged(c Changed) []*snapshot.Host {
	view := d.opts.Inventory.View()
	if c.Image != nil {
		return view.HostsOf(func(ref snapshot.Ref) bool { return ref == c.Image.Ref })
	}
	doubtful := map[snapshot.Ref]bool{}
	for _, i := range view.Images("") {
		if i.MaxIgnition != "" && (c.Config == nil || !c.Config.Servable.Reads(i.MaxIgnition)) {
			doubtful[i.Ref] = true
		}
	}
	if len(doubtful) == 0 {
		return nil
	}
	return view.HostsOf(func(ref snapshot.Ref) bool { return doubtful[ref] })
}

// skew compares what a host boots with what it is given. alone has the changed config
// and no other.
func (d *Decider) skew(view snapshot.View, h *snapshot.Host, c Changed, alone *match.Index) *Skew {
	image, config := d.booted(view, h, c, alone)
	return skewed(h, image, config)
}

// skewed compares an image with a config by what is said of both; either may be nil.
func skewed(h *snapshot.Host, image *snapshot.Image, config *snapshot.Config) *Skew {
	if config == nil || config.Servable.Reads(image.MaxIgnition) {
		return nil
	}
	return newSkew(h, image, config)
}

func newSkew(h *snapshot.Host, image *snapshot.Image, config *snapshot.Config) *Skew {
	return &Skew{
		Host: h.Ref, Image: image.Ref, Config: config.Ref,
		Release: image.Release, MaxIgnition: image.MaxIgnition, Needs: config.IgnitionVersion,
	}
}

// booted returns the image that a host boots and the config that it is given then, where
// it is known what the image reads; else the config is nil.
func (d *Decider) booted(view snapshot.View, h *snapshot.Host, c Changed, alone *match.Index) (
	image *snapshot.Image, config *snapshot.Config,
) {
	if h.Image == (snapshot.Ref{}) || d.opts.Policy.Isolate && h.Image.Namespace != h.Namespace {
		return nil, nil
	}
	image = view.Image(h.Image)
	if c.Image != nil && c.Image.Ref == h.Image {
		image = c.Image
	}
	if image == nil || image.MaxIgnition == "" {
		return nil, nil
	}
	q := configQuestion{newQuestion(d, view, &Request{Type: Ignition})}
	q.dec.Host = h
	query := q.query()
	if c.Image != nil && image == c.Image {
		query.Facts.Image = image.Config
	}
	if c.Config == nil {
		config, _ = view.Pick(&query)
	} else if r, _ := alone.Pick(&query); r != nil && view.Wins(&query, c.Config) {
		config = c.Config
	}
	return image, config
}
