package snapshot

import v1 "glowplug/api/v1"

type imageDoc struct {
	metadata metaDoc
	spec     v1.ISCSICdromSpec
	status   v1.ISCSICdromStatus
}

func (d *imageDoc) scan(s *scanner) {
	for key := range s.object {
		switch key {
		case "metadata":
			d.metadata.scan(s)
		case "spec":
			scanImageSpec(s, &d.spec)
		case "status":
			for key := range s.object {
				switch key {
				case "phase":
					d.status.Phase = s.str()
				case "errorMessage":
					d.status.ErrorMessage = s.str()
				case "targetIQN":
					d.status.TargetIQN = s.str()
				case "sha256":
					d.status.SHA256 = s.str()
				case "servedRelease":
					d.status.ServedRelease = s.str()
				case "maxIgnition":
					d.status.MaxIgnition = s.str()
				case "files":
					d.status.Files = nil
					for range s.array {
						d.status.Files = append(d.status.Files, scanImageFile(s))
					}
				default:
					s.skip()
				}
			}
		default:
			s.skip()
		}
	}
}

func scanImageFile(s *scanner) (f v1.ImageFile) {
	for key := range s.object {
		if key == "role" {
			f.Role = s.str()
		} else {
			s.skip()
		}
	}
	return f
}

func scanImageSpec(s *scanner, spec *v1.ISCSICdromSpec) {
	for key := range s.object {
		switch key {
		case "ignitionConfig":
			spec.IgnitionConfig = s.str()
		case "version":
			spec.Version = s.str()
		case "menu":
			if spec.Menu = nil; !s.null() {
				shown := s.boolean()
				spec.Menu = &shown
			}
		case "transport":
			spec.Transport = s.str()
		case "access":
			spec.Access = s.str()
		case "default":
			spec.Default = s.boolean()
		case "kernelArgs":
			spec.KernelArgs = s.strings()
		case "allowedInitiators":
			spec.AllowedInitiators = s.strings()
		case "stream":
			if s.null() {
				continue
			}
			spec.Stream = &v1.StreamImage{}
			for key := range s.object {
				if key == "format" {
					spec.Stream.Format = s.str()
				} else {
					s.skip()
				}
			}
		case "external":
			if s.null() {
				continue
			}
			spec.External = &v1.ExternalTarget{}
			for key := range s.object {
				switch key {
				case "portal":
					spec.External.Portal = s.str()
				case "iqn":
					spec.External.IQN = s.str()
				case "lun":
					spec.External.LUN = int32(s.integer())
				default:
					s.skip()
				}
			}
		case "chap":
			if s.null() {
				continue
			}
			spec.CHAP = &v1.CHAP{}
			for key := range s.object {
				switch key {
				case "username":
					spec.CHAP.Username = s.str()
				case "password":
					spec.CHAP.Password = s.str()
				case "mutualUsername":
					spec.CHAP.MutualUsername = s.str()
				case "mutualPassword":
					spec.CHAP.MutualPassword = s.str()
				default:
					s.skip()
				}
			}
		default:
			s.skip()
		}
	}
}
