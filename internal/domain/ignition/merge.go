package ignition

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	cjson "github.com/clarketm/json"

	"glowplug/internal/domain/report"
)

// Part is a config that is merged with others, and a name for what comes from it.
type Part struct {
	Name   string
	Config []byte
}

// Merged is the result of merging configs.
type Merged struct {
	Config []byte
	// Version is the spec version of Config, the highest of those that were merged.
	Version string

	config reflect.Value
	from   sources
}

// PartError says which of the configs cannot be merged with the others.
type PartError struct {
	Part string
	// Version is the spec version of the merge, and Losses the fields that it cannot have;
	// empty where Err is the cause.
	Version string
	Losses  []Loss
	Err     error
}

func (e *PartError) Error() string { return e.Part + ": " + e.Reason() }

// Reason is the error without the name of the part.
func (e *PartError) Reason() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return fmt.Sprintf("it cannot be brought to spec %s: %s", e.Version, lossText(e.Losses))
}

// maxNamed bounds the fields that an error names.
const maxNamed = 5

func lossText(losses []Loss) string {
	var all []string
	for i, l := range losses {
		if i == maxNamed {
			all = append(all, fmt.Sprintf("and %d more fields", len(losses)-i))
			break
		}
		all = append(all, l.String())
	}
	return strings.Join(all, "; ")
}

// MergeAll merges valid configs, each over those before it, by the rules of Ignition:
// those of spec 3 or, where all are of spec 2, those of appending. All are first converted
// to the highest spec version among them; a config that cannot be is a PartError. The
// result need not be valid. The same configs always give the same bytes, and a single one
// is returned unchanged.
func MergeAll(parts []Part) (*Merged, error) {
	target, specs, err := readParts(parts)
	if err != nil {
		return nil, err
	}
	m := &Merged{Version: target.name}
	for i, part := range parts {
		raw := part.Config
		if specs[i] != target {
			out, losses, err := Convert(raw, target.name)
			if err != nil || len(losses) > 0 {
				return nil, &PartError{Part: part.Name, Version: target.name, Losses: losses, Err: err}
			}
			raw = out
		}
		config := reflect.New(target.config)
		if err := json.Unmarshal(raw, config.Interface()); err != nil {
			return nil, &PartError{Part: part.Name, Err: errors.New(oneLine(err.Error()))}
		}
		child := config.Elem()
		if i == 0 {
			m.Config, m.config = raw, child
		} else {
			m.config = target.merge(m.config, child)
		}
		m.from = m.from.merged(m.config, child, part.Name)
	}
	if len(parts) > 1 {
		// The version is that of every part; the library would let the child's stand.
		if m.Config, err = cjson.Marshal(m.config.Interface()); err != nil {
			return nil, fmt.Errorf("writing the merged config: %w", err)
		}
	}
	return m, nil
}

// readParts finds the specs of configs, and the highest, in which they are merged. An
// experimental one counts as its release, unless all are of it.
func readParts(parts []Part) (target *spec, specs []*spec, err error) {
	if len(parts) == 0 {
		return nil, nil, errors.New("there is nothing to merge")
	}
	uniform := true
	for _, part := range parts {
		_, s, failure := read(part.Config)
		if failure != nil {
			return nil, nil, &PartError{Part: part.Name, Err: errors.New(failure.String())}
		}
		specs = append(specs, s)
		uniform = uniform && s == specs[0]
		if target == nil || target.before(s) {
			target = s
		}
	}
	if target.pre != "" && !uniform {
		target = specOf(version{major: target.major, minor: target.minor}.String())
	}
	return target, specs, nil
}

// Validate holds a merged config against its spec: configs that are valid each by
// itself need not go together. Findings have a path and no position.
func (m *Merged) Validate() report.Report {
	d, s, failure := read(m.Config)
	if failure != nil {
		return report.Report{*failure}
	}
	return s.check(d, false).Tidy()
}
