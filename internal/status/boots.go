package status

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
)

// maxListed is how many boots one request for a part of a list asks for at most.
const maxListed = 500

// BootSearch says which boots are looked for.
type BootSearch struct {
	// Namespace is "" for all of them.
	Namespace string
	// Selector is a field selector of the API.
	Selector string
	// Oldest leaves out the boots that began before it; zero: none.
	Oldest time.Time
	// IsWanted leaves out others; nil: none.
	IsWanted func(*v1.Boot) bool
	// From is where another search has stopped.
	From BootPlace
	// Enough is how many boots end the search, and Until when it ends without them; zero: there is no such bound.
	Enough int
	Until  time.Time
}

// BootPlace is where a search for boots goes on.
type BootPlace struct {
	// Continue is the token of the API; "": at the begin.
	Continue string
	// Former is true behind the newest boots of all hosts, which come first.
	Former bool
}

// FindBoots returns boots, the newest first, and where the search goes on behind them; nil: there are no more. The
// newest boots of all hosts come first, the former ones after them: each part of a search is in order by itself.
func FindBoots(ctx context.Context, ask Ask, s *BootSearch) (boots []v1.Boot, next *BootPlace, err error) {
	r := bootReader{BootSearch: s, place: s.From, newest: map[string]int64{}}
	size, most := maxListed, maxListed
	if s.Enough > 0 {
		size, most = min(maxListed, s.Enough), min(maxListed, 2*s.Enough)
	}
	for ; ; size = most {
		query := url.Values{"fieldSelector": {s.Selector}, "limit": {strconv.Itoa(size)}}
		if r.place.Continue != "" {
			query.Set("continue", r.place.Continue)
		}
		list := &v1.BootList{}
		if err := ask(ctx, client.Request{Resource: kinds.Boots, Namespace: s.Namespace, Query: query}, list); err != nil {
			return nil, nil, err
		}
		isOver := r.read(list.Items)
		r.place.Continue = list.Continue
		switch {
		case list.Continue == "" || isOver:
			return newestFirst(r.found), nil, nil
		case r.hasEnough(time.Now()):
			return newestFirst(r.found), &r.place, nil
		}
	}
}

// bootReader reads the parts of a list of boots.
type bootReader struct {
	*BootSearch
	place  BootPlace
	newest map[string]int64 // number of the newest boot, by host
	found  []v1.Boot
}

// read takes the boots that are looked for out of a part of the list, and reports whether those behind it all began too
// long ago.
func (r *bootReader) read(part []v1.Boot) (isOver bool) {
	isOver = len(part) > 0
	for i := range part {
		boot := &part[i]
		r.place.Former = r.place.Former || r.isFormer(boot)
		isLate := boot.Begun != nil && !boot.Begun.Time.Before(r.Oldest)
		isOver = isOver && r.place.Former && !isLate
		if isLate && (r.IsWanted == nil || r.IsWanted(boot)) {
			r.found = append(r.found, *boot)
		}
	}
	return isOver
}

// hasEnough reports whether the search ends although there may be more.
func (r *bootReader) hasEnough(now time.Time) bool {
	return r.Enough > 0 && len(r.found) >= r.Enough || !r.Until.IsZero() && now.After(r.Until)
}

// isFormer reports whether a newer boot of the host came before this one.
func (r *bootReader) isFormer(boot *v1.Boot) bool {
	host := boot.Namespace + "/" + strings.TrimSuffix(boot.Name, strconv.FormatInt(boot.Number, 10))
	newest, isKnown := r.newest[host]
	r.newest[host] = max(newest, boot.Number)
	return isKnown && newest > boot.Number
}

func newestFirst(boots []v1.Boot) []v1.Boot {
	slices.SortStableFunc(boots, func(a, b v1.Boot) int { return b.Begun.Compare(a.Begun.Time) })
	return boots
}

// HasFailed reports whether a boot failed, was abandoned, or was completed although its machine was refused a config.
func HasFailed(boot *v1.Boot) bool {
	return boot.Outcome == v1.OutcomeFailed || boot.Outcome == v1.OutcomeAbandoned ||
		boot.Outcome == v1.OutcomeProvisioned && boot.Reason != ""
}
