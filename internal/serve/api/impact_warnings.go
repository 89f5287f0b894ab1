package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apiserver/pkg/warning"

	"glowplug/internal/budget"
	"glowplug/internal/domain/impact"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/limit"
)

const (
	// admissionTime bounds the synchronous work on a write, with the prediction of its impact, and maxBalance
	// and refill the time that the predictions of a user's writes take: so much at once, and one part in refill
	// of the time that passes. maxMeters bounds the users that are remembered.
	admissionTime = time.Second
	maxBalance    = 2 * time.Second
	refill        = 10
	maxMeters     = 1 << 12
	// warnWait bounds the wait of a write for other predictions.
	warnWait = 100 * time.Millisecond
	// maxWarned bounds the hosts that a warning names.
	maxWarned = 3
)

// meters have the time in microseconds that the predictions of each user may take.
type meters struct {
	mu sync.Mutex
	of limit.Table[string, *rate.Limiter]
}

func newMeters() meters {
	full := int(maxBalance / time.Microsecond)
	return meters{of: limit.Buckets[string](maxMeters, limit.Rate{Every: refill * time.Microsecond, Burst: full})}
}

// get returns the meter of a user. There is time left where it has a token.
func (m *meters) get(client string) *rate.Limiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of.Of(client)
}

// spend takes the time of a prediction from a meter, also more than is left.
func spend(meter *rate.Limiter, now time.Time, took time.Duration) {
	for ; took > 0; took -= maxBalance {
		meter.ReserveN(now, int(min(took, maxBalance)/time.Microsecond))
	}
}

// Warnings of a write whose impact was not computed.
const (
	notPredicted  = "the impact on the hosts was not computed, since "
	manyWrites    = notPredicted + "many objects are written at once; glowplug diff computes it before a write"
	otherAtWork   = notPredicted + "others were being computed; glowplug diff computes it before a write"
	takesTooLong  = notPredicted + "the write took a second already; glowplug diff computes it before a write"
	strangersText = "impact on machines that are no known hosts: "
)

// warn adds the warnings of what a write does to the hosts.
func (p *impacts) warn(ctx context.Context, a *attempt) {
	if p.opts.Decider == nil {
		return
	}
	set := changesOf([]change{a.change}, a.view, p.opts.MaxIgnition)
	if set.isEmpty {
		return
	}
	for _, text := range set.islands {
		warning.AddWarning(ctx, "", text)
	}
	ctx, cancel := context.WithDeadline(ctx, a.began.Add(admissionTime))
	defer cancel()
	pace, end := budget.NewPacer(ctx, p.opts.Asked), func() {}
	if set.concernsAll() {
		meter := p.meters.get(clientOf(ctx))
		if meter.Tokens() <= 0 {
			warning.AddWarning(ctx, "", manyWrites)
			return
		}
		turn := p.beginSoon(ctx)
		if turn == nil {
			warning.AddWarning(ctx, "", otherAtWork)
			return
		}
		pace = budget.NewPacer(ctx, p.opts.Asked)
		end = func() { spend(meter, time.Now(), pace.Total()); turn() }
	}
	texts, err := untilEnd(ctx, end, func() ([]string, error) { return p.warnings(pace, set, a.view) })
	if err != nil {
		texts = []string{takesTooLong}
	}
	for _, text := range texts {
		warning.AddWarning(ctx, "", text)
	}
}

// beginSoon is begin for a write, which does not wait for long.
func (p *impacts) beginSoon(ctx context.Context) (end func()) {
	ctx, cancel := context.WithTimeout(ctx, warnWait)
	defer cancel()
	return p.begin(ctx)
}

// warnings returns the warnings of what a set of changes does to the hosts.
func (p *impacts) warnings(pace *budget.Pacer, set *changeSet, view model.View) ([]string, error) {
	result, err := p.compute(pace, set, view, false)
	if err != nil {
		return nil, err
	}
	nameable := p.nameable(pace.Context())
	effects := told
	if set.isolation {
		effects = append(slices.Clone(told), impact.Mended) // the end of an island is told as its begin is
	}
	texts := impactWarnings(result, effects, nameable)
	if set.isolation {
		mayRead := func(config model.Ref) bool {
			return p.opts.rights.mayGet(pace.Context(), kinds.IgnitionConfigs, "", config.Namespace, config.Name)
		}
		if text := warnMoves(result, nameable, mayRead); text != "" {
			texts = append(texts, text)
		}
	}
	if effect := result.OnStrangers(); slices.Contains(told, effect) {
		texts = append(texts, strangersText+effect.Phrase())
	}
	if text := warnLosses(p.disks(pace.Context(), result), nameable); text != "" {
		texts = append(texts, text)
	}
	return texts, nil
}

// told are the effects that a write is answered with.
var told = []impact.Effect{
	impact.Unmatched, impact.Unrecognised, impact.Unserved, impact.Unreadable, impact.Ambiguous, impact.Stale,
	impact.Unbootable, impact.Unknown, impact.ConfigChanged, impact.ContentChanged, impact.BootChanged,
	impact.AddressChanged,
}

// nameable returns a function that reports whether the user of a request may get a host, given as
// namespace/name. Others are counted only.
func (p *impacts) nameable(ctx context.Context) func(host string) bool {
	return func(host string) bool {
		namespace, name, _ := strings.Cut(host, "/")
		return p.opts.rights.mayGet(ctx, kinds.BareMetalHosts, "", namespace, name)
	}
}

// impactWarnings are the warnings of the effects of an impact. They name only hosts for which nameable is true.
func impactWarnings(result *impact.Impact, effects []impact.Effect, nameable func(host string) bool) (out []string) {
	for _, effect := range effects {
		n := result.Counts[effect]
		if n == 0 {
			continue
		}
		var names []string
		for i := range result.Groups {
			if group := &result.Groups[i]; slices.Contains(group.Effects, effect) && len(names) < maxWarned {
				names = append(names, slices.DeleteFunc(slices.Clone(group.Names), func(host string) bool {
					return !nameable(host)
				})...)
			}
		}
		out = append(out, fmt.Sprintf("impact on %d of %d hosts: %s (%s)", n, result.Hosts, effect.Phrase(),
			first(names, maxWarned, n)))
	}
	return out
}

// first lists a few of n names.
func first(names []string, few, n int) string {
	names = names[:min(len(names), few)]
	text := strings.Join(names, ", ")
	switch more := n - len(names); {
	case more > 0 && len(names) == 0:
		text = "of namespaces that you may not read"
	case more > 0:
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
