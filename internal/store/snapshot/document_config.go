package snapshot

import (
	v1 "glowplug/api/v1"
	"glowplug/internal/domain/ignition"
)

type configDoc struct {
	metadata metaDoc
	spec     v1.IgnitionConfigSpec
	status   v1.IgnitionConfigStatus
	// judged is true where status.servable says something.
	judged bool
	// servable are the versions in it that nothing stands in the way of.
	servable ignition.Specs
	compiled v1.Compiled
}

func (d *configDoc) scan(s *scanner) {
	for key := range s.object {
		switch key {
		case "metadata":
			d.metadata.scan(s)
		case "spec":
			for key := range s.object {
				switch key {
				case "type":
					d.spec.Type = s.str()
				case "format":
					d.spec.Format = s.str()
				case "kickstartVersion":
					d.spec.KickstartVersion = s.str()
				case "config":
					d.spec.Config = s.str()
				case "selector":
					scanSelector(s, &d.spec.Selector)
				case "layers":
					for range s.array {
						for key := range s.object {
							if key == "name" {
								d.spec.Layers = append(d.spec.Layers, v1.LayerReference{Name: s.str()})
							} else {
								s.skip()
							}
						}
					}
				default:
					s.skip()
				}
			}
		case "status":
			for key := range s.object {
				switch key {
				case "phase":
					d.status.Phase = s.str()
				case "errorMessage":
					d.status.ErrorMessage = s.str()
				case "servable":
					for range s.array {
						d.judged = true
						d.servable |= scanServable(s)
					}
				case "layers":
					for range s.array {
						d.status.Layers = append(d.status.Layers, scanLayer(s))
					}
				default:
					s.skip()
				}
			}
		case "compiled":
			scanCompiled(s, &d.compiled)
		default:
			s.skip()
		}
	}
}

// scanServable gives the version of an entry that nothing stands in the way of.
func scanServable(s *scanner) ignition.Specs {
	version, blocked := "", false
	for key := range s.object {
		switch key {
		case "version":
			version = s.str()
		case "blockedBy":
			for range s.array {
				blocked = true
				s.skip()
			}
		default:
			s.skip()
		}
	}
	if blocked {
		return 0
	}
	return ignition.SpecsOf(version)
}

func scanSelector(s *scanner, sel *v1.IgnitionConfigSelector) {
	for key := range s.object {
		switch key {
		case "matchLabels":
			sel.MatchLabels = s.stringMap()
		case "matchHostnames":
			sel.MatchHostnames = s.strings()
		case "matchIPs":
			sel.MatchIPs = s.strings()
		case "matchMACs":
			sel.MatchMACs = s.strings()
		case "default":
			sel.Default = s.boolean()
		default:
			s.skip()
		}
	}
}

func scanLayer(s *scanner) (layer v1.LayerStatus) {
	for key := range s.object {
		switch key {
		case "name":
			layer.Name = s.str()
		case "hash":
			layer.Hash = s.str()
		case "stale":
			layer.Stale = s.boolean()
		default:
			s.skip()
		}
	}
	return layer
}

func scanCompiled(s *scanner, c *v1.Compiled) {
	for key := range s.object {
		switch key {
		case "own":
			if s.null() {
				continue
			}
			c.Own = &v1.OwnCompilation{}
			for key := range s.object {
				if key == "artifact" {
					c.Own.Artifact = s.base64()
				} else {
					s.skip()
				}
			}
		case "artifact":
			c.Artifact = s.base64()
		case "hash":
			c.Hash = s.str()
		case "ignitionVersion":
			c.IgnitionVersion = s.str()
		case "generation":
			c.Generation = s.integer()
		case "template":
			c.Template = s.boolean()
		case "format":
			c.Format = s.str()
		default:
			s.skip()
		}
	}
}
