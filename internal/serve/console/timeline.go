package console

import (
	"net/url"
	"time"

	"glowplug/internal/domain/wording"
)

// maxEvents is how many events a page of one object lists.
const maxEvents = 30

// timeline is a boot as a table with a bar for each step.
type timeline struct {
	*wording.Timeline
	// Sentence says what the machine waits for; "": nothing, or it is not known.
	Sentence string
	// Late is true where it waits much longer than its peers did.
	Late bool
	Rows []timelineRow
}

// timelineRow is a step. Start and Width are percentages of the duration of the boot; Waits is true for the step that
// the machine has not reached and whose time is running, and Late if that is much longer than with its peers.
type timelineRow struct {
	wording.Step
	Start, Width int
	Waits, Late  bool
	Took         time.Duration
}

// timelineOf lays out the steps of a boot.
func timelineOf(t *wording.Timeline, now time.Time) *timeline {
	out := &timeline{Timeline: t}
	b := t.Boot
	if b.Begun == nil {
		return out
	}
	end := now
	if b.Ended != nil {
		end = b.Ended.Time
	}
	whole := max(end.Sub(b.Begun.Time), time.Second)
	percent := func(d time.Duration) int { return int(min(100, max(0, 100*d/whole))) }
	at := b.Begun.Time
	for _, step := range t.Steps {
		row := timelineRow{Step: step}
		switch {
		case step.At != nil:
			row.Start, row.Width = percent(at.Sub(b.Begun.Time)), max(1, percent(step.At.Sub(at)))
			row.Took, at = max(0, step.At.Sub(at)), step.At.Time
		case b.Ended == nil && out.Sentence == "":
			row.Waits, row.Took = true, now.Sub(at)
			row.Start, row.Width = percent(at.Sub(b.Begun.Time)), max(1, percent(row.Took))
			out.Sentence, out.Late = wording.Waiting(t, step.Name, row.Took)
			row.Late = out.Late
		}
		row.Start = min(row.Start, 100-row.Width)
		out.Rows = append(out.Rows, row)
	}
	return out
}

// eventsOf selects the events of an object.
func eventsOf(kind, name string) url.Values {
	return url.Values{"fieldSelector": {"involvedObject.kind=" + kind + ",involvedObject.name=" + name}, "limit": {"500"}}
}
