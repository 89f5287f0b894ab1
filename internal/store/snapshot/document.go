package snapshot

import (
	"time"

	v1 "glowplug/api/v1"
)

// The documents are the few members of the stored objects that matching and
// serving need.
type metaDoc struct {
	uid        string
	created    time.Time
	generation int64
	labels     map[string]string
	// rearm and ipxe are annotations.
	rearm, ipxe string
	// annotated says that annotations are wanted: all but kubectl's copy of the
	// object.
	annotated   bool
	annotations map[string]string
}

func (d *metaDoc) scan(s *scanner) {
	for key := range s.object {
		switch key {
		case "uid":
			d.uid = s.str()
		case "creationTimestamp":
			d.created = s.time()
		case "generation":
			d.generation = s.integer()
		case "labels":
			d.labels = s.stringMap()
		case "annotations":
			for key := range s.object {
				if !d.annotated && key != v1.AnnotationIPXE || key == lastApplied {
					s.skip()
					continue
				}
				d.annotate(key, s.str())
			}
		default:
			s.skip()
		}
	}
}

// lastApplied is the annotation in which kubectl keeps the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func (d *metaDoc) annotate(key, value string) {
	switch key {
	case v1.AnnotationRearm:
		d.rearm = value
	case v1.AnnotationIPXE:
		d.ipxe = value
	}
	if d.annotated {
		if d.annotations == nil {
			d.annotations = make(map[string]string)
		}
		d.annotations[key] = value
	}
}

// time reads a time; "" and null are zero.
func (s *scanner) time() time.Time {
	text := s.str()
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		s.fail()
	}
	return at.UTC()
}

type hostDoc struct {
	metadata   metaDoc
	spec       v1.BareMetalHostSpec
	progress   Progress
	unreadable bool
}

func (d *hostDoc) scan(s *scanner) {
	for key := range s.object {
		switch key {
		case "metadata":
			d.metadata.scan(s)
		case "spec":
			scanHostSpec(s, &d.spec)
		case "status":
			scanStatus(s, d)
		default:
			s.skip()
		}
	}
}

func scanStatus(s *scanner, d *hostDoc) {
	p := &d.progress
	for key := range s.object {
		switch key {
		case "state":
			p.State = StateOf(s.str())
		case "lastScript":
			p.Script = s.time()
		case "lastSeen":
			p.Seen = s.time()
		case "lastBoot":
			p.Boot = s.time()
		case "rearmed":
			p.Rearmed = s.str()
		case "bootCount":
			p.Boots = s.integer()
		case "bootRecord":
			p.Position = uint64(max(0, s.integer()))
		case "conditions":
			for range s.array {
				if scanCondition(s) {
					d.unreadable = true
				}
			}
		default:
			s.skip()
		}
	}
}

// scanCondition tells whether a condition is ConfigReadable and False.
func scanCondition(s *scanner) bool {
	var kind, status string
	for key := range s.object {
		switch key {
		case "type":
			kind = s.str()
		case "status":
			status = s.str()
		default:
			s.skip()
		}
	}
	return kind == v1.ConditionConfigReadable && status == "False"
}

// StateOf gives the constant that a state is: it is one of a few words, which a
// hundred thousand hosts need not keep each for itself.
func StateOf(state string) string {
	for _, known := range [...]string{v1.StateAvailable, v1.StateBooting, v1.StateProvisioning, v1.StateProvisioned, v1.StateError} {
		if state == known {
			return known
		}
	}
	return ""
}

func scanHostSpec(s *scanner, spec *v1.BareMetalHostSpec) {
	for key := range s.object {
		switch key {
		case "bootMACAddress":
			spec.BootMACAddress = s.str()
		case "ip":
			spec.IP = s.str()
		case "hostname":
			spec.Hostname = s.str()
		case "labels":
			spec.Labels = s.stringMap()
		case "nics":
			spec.NICs = nil
			for range s.array {
				spec.NICs = append(spec.NICs, scanNIC(s))
			}
		case "systemUUID":
			spec.SystemUUID = s.str()
		case "bootSources":
			spec.BootSources = s.strings()
		case "image":
			spec.Image = s.str()
		case "bootMode":
			spec.BootMode = s.str()
		case "kernelArgs":
			spec.KernelArgs = s.strings()
		case "ipxe":
			spec.IPXE = s.str()
		default:
			s.skip()
		}
	}
}

func scanNIC(s *scanner) (nic v1.NIC) {
	for key := range s.object {
		switch key {
		case "mac":
			nic.MAC = s.str()
		case "ip":
			nic.IP = s.str()
		case "hostname":
			nic.Hostname = s.str()
		default:
			s.skip()
		}
	}
	return nic
}

type namespaceDoc struct{ metadata metaDoc }

func (d *namespaceDoc) scan(s *scanner) {
	for key := range s.object {
		if key == "metadata" {
			d.metadata.scan(s)
		} else {
			s.skip()
		}
	}
}

// read reads a whole value into a document.
func read(value []byte, doc interface{ scan(*scanner) }) error {
	s := scanner{data: value}
	if s.peek() != '{' {
		s.fail()
	}
	doc.scan(&s)
	return s.end()
}
