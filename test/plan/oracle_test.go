package plan

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"glowplug/internal/domain/plan"
)

// defaultPairs is the number of pairs without PLAN_PAIRS.
const defaultPairs = 40

// TestIgnitionDoesAsPlanned runs the real Ignition on random pairs of a disk and a config, and holds
// what it did against the plan: whether it fails, the partition table, what each partition contains,
// and which file systems of before are still there. PLAN_PAIRS is the number of pairs, PLAN_SEED
// the first seed.
func TestIgnitionDoesAsPlanned(t *testing.T) {
	m := newMachine(t)
	pairs, first := number(t, "PLAN_PAIRS", defaultPairs), number(t, "PLAN_SEED", 1)
	agreed, disagreed, failed := map[string]int{}, map[string]int{}, 0
	for seed := first; seed < first+pairs; seed++ {
		kinds, disagreements := m.hold(uint64(seed))
		for _, d := range disagreements {
			t.Errorf("seed %d: %s: %s", seed, d.kind, d.text)
			disagreed[d.kind]++
		}
		if len(disagreements) > 0 {
			failed++
			continue
		}
		for _, kind := range kinds {
			agreed[kind]++
		}
	}
	t.Logf("%d pairs, %d with a disagreement", pairs, failed)
	for _, kind := range slices.Sorted(maps.Keys(agreed)) {
		t.Logf("%5d  agreed: %s", agreed[kind], kind)
	}
	for _, kind := range slices.Sorted(maps.Keys(disagreed)) {
		t.Logf("%5d  disagreed: %s", disagreed[kind], kind)
	}
}

// disagreement is something that Ignition did otherwise than planned.
type disagreement struct{ kind, text string }

// sayer notes a disagreement.
type sayer func(kind, format string, args ...any)

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// hold runs the pair of a seed, and returns the kinds of steps that agree, and the disagreements.
func (m *machine) hold(seed uint64) (kinds []string, disagreements []disagreement) {
	m.t.Helper()
	p, g := newPair(seed)
	// sfdisk knows the table better than lsblk, and is not always asked.
	return m.meet(p, seed%2 == 0, func(device string, planned func(config []byte) *plan.Plan) []byte {
		return g.config(device, func(config []byte) bool {
			made := planned(config)
			// Most random configs fail, so two of three pairs are those that are planned not to.
			return seed%3 == 0 || made.Outcome != plan.Fails && len(made.Devices) > 0
		})
	})
}

// meet prepares the disk of a pair, runs Ignition with the config that compose returns, and holds
// what it did against the plan. isExact: the facts are those of lsblk and sfdisk, else of lsblk.
func (m *machine) meet(p pair, isExact bool, compose func(device string,
	planned func(config []byte) *plan.Plan) []byte) (kinds []string, disagreements []disagreement) {
	m.t.Helper()
	device := m.attach(p.mib, p.sector)
	defer m.detach(device)
	for _, command := range p.setup {
		m.run("sh", "-ec", "D="+device+"\n"+command)
	}
	facts, err := m.facts(device, isExact)
	if err != nil {
		m.t.Fatalf("%q: %v", p.setup, err)
	}
	planOf := func(config []byte) *plan.Plan {
		made, err := plan.New(config, facts)
		if err != nil {
			m.t.Fatalf("%s: %v", config, err)
		}
		return made
	}
	config := compose(device, planOf)
	planned := planOf(config)
	before := m.state(device)
	stage, log, err := m.boot(config)
	after := m.state(device)
	say := func(kind, format string, args ...any) {
		disagreements = append(disagreements, disagreement{kind, fmt.Sprintf(format, args...)})
	}
	if undecided := undecided(planned, isExact, say); undecided != "" {
		return []string{"outcome: unknown: " + undecided}, disagreements
	}
	if fails := planned.Outcome == plan.Fails; fails != (err != nil) {
		say("outcome", "Ignition: stage %s, %v; planned: %s", stage, err, planned.Outcome)
	}
	if err == nil && planned.Outcome != plan.Fails {
		compareParts(planned, after, say)
	}
	compareLosses(planned, before, after, say)
	if len(disagreements) > 0 {
		say("pair", "disk: %s\nconfig: %s\nplan: %s\nlast lines of Ignition: %s", strings.Join(p.setup, "; "), config, describe(planned),
			lastLines(log))
		return nil, disagreements
	}
	planned.Walk(func(s *plan.Step) {
		if !s.NotReached {
			kinds = append(kinds, fmt.Sprintf("%s: %s", s.Kind, s.Action))
		}
	})
	return append(kinds, "outcome: "+planned.Outcome), nil
}

// undecided returns what the plan may leave open, so that the pair is not held against it; "":
// nothing. Anything else that is unknown is a disagreement.
func undecided(planned *plan.Plan, isExact bool, say sayer) (undecided string) {
	planned.Walk(func(s *plan.Step) {
		isTable := strings.HasPrefix(s.Rule, "lsblk does not say") && !isExact
		isLeftover := strings.HasPrefix(s.Rule, "the new partition table can leave")
		isInside := strings.HasPrefix(s.Rule, "the partition begins inside")
		switch {
		case isInside:
			undecided = "the partition begins inside a former file system"
		case isTable || isLeftover:
			undecided = s.Rule
		case s.Action == plan.Unknown && !s.NotReached:
			say("unknown", "the %s %s is unknown", s.Kind, s.Name)
		}
	})
	return undecided
}

// compareParts holds the parts of the plan against those of the disk.
func compareParts(planned *plan.Plan, after map[int]found, say sayer) {
	for _, d := range planned.Devices {
		seen := 0
		for _, part := range d.After {
			if part.Number == 0 && part.Content == "" {
				continue // a free part
			}
			seen++
			have, ok := after[part.Number]
			content := have.Type
			if content == "" {
				content = "no file system"
			}
			switch {
			case !ok:
				say("partition", "partition %d is planned, and not there", part.Number)
			case part.Number > 0 && (have.Size != part.Size/512 && have.Size != part.Size/4096 || have.Label != part.Label):
				say("partition", "partition %d has %d sectors and the label %q; planned %d bytes and %q", part.Number, have.Size, have.Label,
					part.Size, part.Label)
			case part.Number > 0 && have.Start != part.Start/512 && have.Start != part.Start/4096:
				say("partition", "partition %d starts at sector %d, planned byte %d", part.Number, have.Start, part.Start)
			case !strings.HasPrefix(part.Content, content) && part.Content != "unknown content":
				say("content", "partition %d contains %s, planned %s", part.Number, content, part.Content)
			}
		}
		if have := len(after) - 1; seen != have && !(seen == 1 && have == 0) {
			say("partition", "there are %d partitions, planned %d", have, seen)
		}
	}
}

// compareLosses looks for the file systems of before. Those that the plan does not lose have to be
// there.
func compareLosses(planned *plan.Plan, before, after map[int]found, say sayer) {
	var losses []string
	planned.Walk(func(s *plan.Step) {
		if !s.NotReached {
			losses = append(losses, s.Loses...)
		}
	})
	lost := strings.Join(losses, "; ")
	for number, old := range before {
		isWhole := number > 0 && old.UUID == before[0].UUID // the disk of a hybrid ISO and its first partition begin alike
		if old.UUID == "" || old.Type == "" || isWhole {
			continue
		}
		survives := slices.ContainsFunc(slices.Collect(maps.Values(after)), func(f found) bool {
			return f.UUID == old.UUID && f.Type == old.Type
		})
		name := fmt.Sprintf("partition %d ", number)
		isPlanned := strings.Contains(lost, name) || strings.Contains(lost, fmt.Sprintf("partition %d,", number)) || strings.Contains(strings.ToLower(lost), fmt.Sprintf("%q", labelOf(number))) ||
			number == 0 && strings.Contains(lost, old.Type)
		switch {
		case !survives && !isPlanned:
			say("loss", "%s of partition %d is lost; the plan loses: %q", old.Type, number, lost)
		// The superblock of a file system on the whole disk can be left below a new partition table.
		case survives && isPlanned && number > 0 && !strings.Contains(lost, "are left"):
			say("loss", "%s of partition %d is still there; the plan loses: %q", old.Type, number, lost)
		}
	}
}

func describe(p *plan.Plan) string {
	var b strings.Builder
	fmt.Fprintln(&b, p.Outcome)
	p.Walk(func(s *plan.Step) {
		fmt.Fprintf(&b, "  %s %s %s (%s) %s loses %q notReached=%v\n", s.Action, s.Kind, s.Name, s.Detail, s.Rule, s.Loses,
			s.NotReached)
	})
	for _, d := range p.Devices {
		fmt.Fprintf(&b, "  before %v\n  after %v\n", d.Before, d.After)
	}
	return b.String()
}

func lastLines(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, "CRITICAL") || strings.HasPrefix(line, "ERR") || strings.Contains(line, "failed") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(len(lines)-12, 0):], "")
}
