package plan

import (
	"fmt"
	"strings"
	"testing"

	"glowplug/internal/domain/plan"
)

// meetConfig is meet with a storage section, in which "D" is the disk. It also returns the plan.
func (m *machine) meetConfig(setup, storage string, isExact bool) (made *plan.Plan, disagreements []disagreement) {
	_, disagreements = m.meet(pair{mib: 100, sector: 512, setup: []string{setup}}, isExact,
		func(device string, planned func([]byte) *plan.Plan) []byte {
			config := []byte(strings.ReplaceAll(`{"ignition":{"version":"3.4.0"},"storage":{`+storage+`}}`, `"D"`,
				fmt.Sprintf("%q", device)))
			made = planned(config)
			return config
		})
	return made, disagreements
}

// TestTablesAsPlanned runs the real Ignition on partition tables that are shorter and longer than
// others, that have labels with white space at their ends, and of which only the copy is left.
func TestTablesAsPlanned(t *testing.T) {
	m := newMachine(t)
	const divided = `printf 'label: gpt\n%ssize=8M, name="%s"\n' | sfdisk -q --no-tell-kernel $D`
	numbered := func(number int) string {
		return fmt.Sprintf(`"disks":[{"device":"D","partitions":[{"number":%d,"sizeMiB":8}]}]`, number)
	}
	labelled := func(label string) string {
		return fmt.Sprintf(`"disks":[{"device":"D","partitions":[{"number":1,"sizeMiB":8,"label":%q}]}]`, label)
	}
	for _, c := range []struct {
		setup, storage string
		fails          bool
	}{
		{fmt.Sprintf(divided, `table-length: 4\n`, "a"), numbered(4), false},
		{fmt.Sprintf(divided, `table-length: 4\n`, "a"), numbered(5), true},
		{fmt.Sprintf(divided, "", "a"), numbered(128), false},
		{fmt.Sprintf(divided, "", "a"), numbered(129), true},
		{fmt.Sprintf(divided, `table-length: 256\n`, "a"), numbered(200), false},
		{fmt.Sprintf(divided, `table-length: 256\n`, "a"), numbered(257), true},
		{fmt.Sprintf(divided, "", "old "), labelled("old"), false},
		{fmt.Sprintf(divided, "", "old "), labelled("old "), true},
		{fmt.Sprintf(divided, "", " old"), labelled(" old"), false},
		{fmt.Sprintf(divided, "", " old"), labelled("old"), true},
	} {
		made, disagreements := m.meetConfig(c.setup, c.storage, true)
		if fails := made.Outcome == plan.Fails; fails != c.fails || len(disagreements) > 0 {
			t.Errorf("%s, %s: planned %s, %v", c.setup, c.storage, made.Outcome, disagreements)
		}
	}

	zeroed := fmt.Sprintf(divided, "", "a") + "\ndd if=/dev/zero of=$D bs=1M count=1 conv=notrunc status=none"
	made, disagreements := m.meetConfig(zeroed, numbered(1), true)
	var notes string
	made.Walk(func(s *plan.Step) { notes += strings.Join(s.Notes, "; ") })
	if !strings.Contains(notes, "the copy of a GPT") || len(disagreements) == 0 || disagreements[0].kind != "outcome" {
		t.Errorf("a table of which only the copy is left: the notes are %q; Ignition: %v", notes, disagreements)
	}
	wiped := strings.Replace(numbered(1), `"partitions"`, `"wipeTable":true,"partitions"`, 1)
	if _, disagreements := m.meetConfig(zeroed, wiped, true); len(disagreements) > 0 {
		t.Errorf("a wiped table of which only the copy was left: %v", disagreements)
	}
}
