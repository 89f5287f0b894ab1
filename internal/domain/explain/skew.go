package explain

import (
	"fmt"
	"slices"
	"strings"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
)

// Skew is a host whose config cannot work on its image. The image cannot read it in any version: the
// machine would boot, repeat its request, and never be configured. Or Ignition stops on it, since the
// image is a live system.
type Skew struct {
	Host, Image, Config model.Ref
	// Stops says why Ignition stops, and what to do; "": the image cannot read the config.
	Stops string
	// Release is that of the image, MaxIgnition the newest Ignition version that it reads.
	Release, MaxIgnition string
	// Needs is the Ignition version of the config.
	Needs string
}

// String is a sentence without its full stop.
func (s *Skew) String() string {
	if s.Stops != "" {
		return fmt.Sprintf("host %s boots image %s, a live CoreOS, and with its config %s Ignition stops in the "+
			"emergency shell: %s", s.Host, s.Image, s.Config, s.Stops)
	}
	release := ""
	if s.Release != "" {
		release = ", release " + s.Release + ","
	}
	return fmt.Sprintf("host %s boots image %s%s which reads Ignition spec %s at most,"+
		" and its config %s is of spec %s and cannot be given in any that it reads",
		s.Host, s.Image, release, s.MaxIgnition, s.Config, s.Needs)
}

// Changed are objects that count as stored; each may be nil.
type Changed struct {
	Image  *model.Image
	Config *model.Config
}

// maxSkewed bounds the hosts that are checked while the client waits for the answer to
// its write. The condition of a host reports the others.
const maxSkewed = 20_000

// SkewOf checks one host, which need not be stored; nil: its image reads its config, or it
// is unknown whether it does. The rendering of a template is unknown.
func SkewOf(d *decide.Decider, h *model.Host) *Skew {
	image, config := booted(d, d.View(), h, Changed{}, nil)
	return compare(d.View(), h, image, config)
}

// SkewOfStored is SkewOf for a stored host. It renders a template for the host, converts
// it as for the machine, and waits for both until gone is closed. known is false where the
// template cannot be rendered.
func SkewOfStored(d *decide.Decider, h *model.Host, gone <-chan struct{}) (s *Skew, known bool) {
	image, config := booted(d, d.View(), h, Changed{}, nil)
	if config == nil || !config.Template || d.Renderer() == nil {
		return compare(d.View(), h, image, config), true
	}
	rendered, err := d.Renderer().Render(config, h, nil, decide.Asker{Gone: gone})
	if err != nil {
		return nil, false
	}
	if image.MaxIgnition != "" && !isServed(d, rendered, image.MaxIgnition) {
		return newSkew(h, image, rendered), true
	}
	return stopsLive(d.View(), h, image, rendered, ignition.LiveDemandsOf(rendered.Artifact)), true
}

// Provisions returns the Ignition config that a stored host receives, rendered where it is a template;
// nil: none, or none that can be served. It waits for a rendering until gone is closed.
func Provisions(d *decide.Decider, h *model.Host, gone <-chan struct{}) *model.Config {
	config := d.Assigned(d.View(), h, decide.Ignition)
	if config != nil && config.Template {
		if d.Renderer() == nil {
			return nil
		}
		rendered, err := d.Renderer().Render(config, h, nil, decide.Asker{Gone: gone})
		if err != nil {
			return nil
		}
		config = rendered
	}
	if config == nil || len(config.Artifact) == 0 {
		return nil
	}
	return config
}

// isServed reports whether a machine that reads up to a version would receive a config.
func isServed(d *decide.Decider, config *model.Config, max string) bool {
	if ignition.Reads(max, config.IgnitionVersion) {
		return true
	}
	accept := ignition.ParseAccept(ignition.AcceptOf(max))
	wanted, _ := ignition.Negotiate(accept, "", "", config.IgnitionVersion)
	for _, version := range wanted {
		if d.Form(config, version).Bytes != nil {
			return true
		}
	}
	return len(wanted) == 0 // the version is unknown
}

// Skews checks all hosts with a change, and returns the first most skews that the change
// causes, in no order.
func Skews(d *decide.Decider, c Changed, most int) (found []*Skew) {
	hosts := imaged(d, c)
	view := d.View()
	alone := view.Subset(c.Config)
	for _, h := range hosts[:min(len(hosts), maxSkewed)] {
		if len(found) >= most {
			break
		}
		image, config := booted(d, view, h, c, alone)
		if s := compare(view, h, image, config); s != nil {
			found = append(found, s)
		}
	}
	return found
}

// Misread reports whether a host boots an image that does not read an Ignition version.
func Misread(d *decide.Decider, version string) bool {
	return len(imaged(d, Changed{Config: &model.Config{Servable: ignition.SpecsOf(version)}})) > 0
}

// imaged returns the hosts that boot the changed image, or, without one, an image that is
// known not to read the changed config, or on which Ignition may stop.
func imaged(d *decide.Decider, c Changed) []*model.Host {
	view := d.View()
	if c.Image != nil {
		return view.HostsOf(func(ref model.Ref) bool { return ref == c.Image.Ref })
	}
	doubtful := map[model.Ref]bool{}
	for _, i := range view.Images("") {
		misreads := i.MaxIgnition != "" && (c.Config == nil || !c.Config.Servable.Reads(i.MaxIgnition))
		if misreads || i.Live && c.Config != nil && c.Config.Demands != nil {
			doubtful[i.Ref] = true
		}
	}
	if len(doubtful) == 0 {
		return nil
	}
	return view.HostsOf(func(ref model.Ref) bool { return doubtful[ref] })
}

// compare compares an image and a config; either may be nil.
func compare(view model.View, h *model.Host, image *model.Image, config *model.Config) *Skew {
	switch {
	case config == nil:
		return nil
	case !config.Servable.Reads(image.MaxIgnition):
		return newSkew(h, image, config)
	}
	return stopsLive(view, h, image, config, config.Demands)
}

// stopsLive returns the skew of a config that asks of a live system what it cannot do; nil: it does not, or the
// arguments of the image are not known.
func stopsLive(
	view model.View, h *model.Host, image *model.Image, config *model.Config, demands *ignition.LiveDemands,
) *Skew {
	if demands == nil || !image.Live {
		return nil
	}
	args := bootArguments(model.OwnArgs(view, h, image), image)
	if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "ignition.config.url=") }) {
		return nil // the config is for the system that it installs
	}
	s := newSkew(h, image, config)
	if s.Stops = demands.Unmet(args); s.Stops == "" {
		return nil
	}
	return s
}

func newSkew(h *model.Host, image *model.Image, config *model.Config) *Skew {
	return &Skew{
		Host: h.Ref, Image: image.Ref, Config: config.Ref,
		Release: image.Release, MaxIgnition: image.MaxIgnition, Needs: config.IgnitionVersion,
	}
}

// booted returns the image that a host boots and the config that it receives then. The
// config is nil where nothing is known of the image. alone has the changed
// config and no other.
func booted(d *decide.Decider, view model.View, h *model.Host, c Changed, alone *match.Index) (
	image *model.Image, config *model.Config,
) {
	if h.Image == (model.Ref{}) || view.Islands().Separate(h.Namespace, h.Image.Namespace) {
		return nil, nil
	}
	image = view.Image(h.Image)
	if c.Image != nil && c.Image.Ref == h.Image {
		image = c.Image
	}
	if image == nil || image.MaxIgnition == "" && !image.Live {
		return nil, nil
	}
	query := d.QueryOf(view, h, decide.Ignition)
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
