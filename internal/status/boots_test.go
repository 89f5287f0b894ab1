package status

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// boot is one that began some minutes before noon.
func boot(host string, number int64, minutes int, outcome string) v1.Boot {
	b := v1.Boot{Host: host, Number: number, Outcome: outcome,
		Begun: &metav1.MicroTime{Time: noon.Add(-time.Duration(minutes) * time.Minute)}}
	b.Namespace, b.Name = "rack-a", fmt.Sprintf("%s.%d", host, number)
	return b
}

// shelf answers with its boots, as many at once as a request asks for.
type shelf struct {
	boots []v1.Boot
	asked int
}

func (s *shelf) ask(_ context.Context, r client.Request, out any) error {
	s.asked++
	limit, _ := strconv.Atoi(r.Query.Get("limit"))
	from, _ := strconv.Atoi(r.Query.Get("continue"))
	list, end := out.(*v1.BootList), min(from+limit, len(s.boots))
	list.Items = s.boots[from:end]
	if end < len(s.boots) {
		list.Continue = strconv.Itoa(end)
	}
	return nil
}

// names are those of boots, in their order.
func names(boots []v1.Boot) string {
	var all []string
	for _, b := range boots {
		all = append(all, b.Name)
	}
	return strings.Join(all, " ")
}

// TestFindBoots: the newest boots come first, whatever part of the list they are in, and those that began too long ago
// or are not wanted are left out.
func TestFindBoots(t *testing.T) {
	kept := &shelf{boots: []v1.Boot{
		boot("a", 3, 1, v1.OutcomeBooting), boot("b", 2, 90, v1.OutcomeFailed), boot("c", 1, 300, v1.OutcomeProvisioned),
		{ObjectMeta: metav1.ObjectMeta{Namespace: "rack-a", Name: "d.0"}}, // has not booted yet
		boot("a", 2, 30, v1.OutcomeAbandoned), boot("b", 1, 40, v1.OutcomeProvisioned), boot("a", 1, 200, v1.OutcomeFailed),
	}}
	for name, test := range map[string]struct {
		search BootSearch
		want   string
	}{
		"all":      {BootSearch{}, "a.3 a.2 b.1 b.2 a.1 c.1"},
		"an hour":  {BootSearch{Oldest: noon.Add(-time.Hour)}, "a.3 a.2 b.1"},
		"failed":   {BootSearch{IsWanted: HasFailed}, "a.2 b.2 a.1"},
		"together": {BootSearch{Oldest: noon.Add(-100 * time.Minute), IsWanted: HasFailed}, "a.2 b.2"},
	} {
		found, next, err := FindBoots(t.Context(), kept.ask, &test.search)
		if got := names(found); err != nil || next != nil || got != test.want {
			t.Errorf("%s: %q, %v, %v, want %q", name, got, next, err, test.want)
		}
	}
}

// TestFindBootsInParts: a search with a bound finds each boot once, and goes on where it has stopped.
func TestFindBootsInParts(t *testing.T) {
	kept := &shelf{}
	for i := range 3000 { // the newest of each host, and two former ones
		kept.boots = append(kept.boots, boot(fmt.Sprint("n", i%1000), int64(3-i/1000), i, []string{v1.OutcomeProvisioned,
			v1.OutcomeFailed}[i%2]))
	}
	for name, search := range map[string]BootSearch{
		"all": {Enough: 100}, "some": {Enough: 100, IsWanted: HasFailed}, "at once": {Enough: 100, Until: noon},
	} {
		seen, parts := map[string]bool{}, 0
		for {
			found, next, err := FindBoots(t.Context(), kept.ask, &search)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range found {
				if seen[b.Name] {
					t.Errorf("%s: %s is there twice", name, b.Name)
				}
				seen[b.Name] = true
			}
			if parts++; len(found) > 3*search.Enough {
				t.Errorf("%s: a part has %d boots", name, len(found))
			}
			if next == nil {
				break
			}
			search.From = *next
		}
		want := 3000
		if search.IsWanted != nil {
			want = 1500
		}
		if len(seen) != want || parts < 5 {
			t.Errorf("%s: %d boots in %d parts", name, len(seen), parts)
		}
	}
}

// TestFindBootsStops: behind the newest boots of all hosts, the search ends where all began too long ago; also one that
// goes on there.
func TestFindBootsStops(t *testing.T) {
	kept := &shelf{}
	for i := range 50_000 {
		kept.boots = append(kept.boots, boot(fmt.Sprint("n", i%600), int64(1000-i/600), i/10, v1.OutcomeProvisioned))
	}
	search := BootSearch{Oldest: noon.Add(-time.Minute), From: BootPlace{Continue: "600", Former: true}}
	if found, next, err := FindBoots(t.Context(), kept.ask,
		&search); len(found) != 0 || next != nil || err != nil || kept.asked != 1 {
		t.Errorf("%d boots, %v, %v, %d requests", len(found), next, err, kept.asked)
	}
	kept.asked, search.From = 0, BootPlace{}
	found, _, _ := FindBoots(t.Context(), kept.ask, &search)
	if len(found) != 20 || kept.asked != 3 {
		t.Errorf("%d boots by %d requests", len(found), kept.asked)
	}
}

// TestHasFailed: a boot that was completed although the machine was refused its config counts as failed.
func TestHasFailed(t *testing.T) {
	for _, outcome := range slices.Concat(v1.BootOutcomes, []string{v1.OutcomeBooting, ""}) {
		want := outcome == v1.OutcomeFailed || outcome == v1.OutcomeAbandoned
		if b := boot("a", 1, 0, outcome); HasFailed(&b) != want {
			t.Errorf("%s: %v", outcome, !want)
		}
	}
	b := boot("a", 1, 0, v1.OutcomeProvisioned)
	b.Reason = "it was refused its config"
	if !HasFailed(&b) {
		t.Error("a boot without its config is none that has failed")
	}
}
