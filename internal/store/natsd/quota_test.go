package natsd

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// account is one whose quota and use are told by a test.
type account struct {
	limit, used atomic.Int64
	asked       atomic.Int64
	away        atomic.Bool
}

func (a *account) info(context.Context) (*jetstream.AccountInfo, error) {
	a.asked.Add(1)
	if a.away.Load() {
		return nil, errors.New("away")
	}
	info := &jetstream.AccountInfo{}
	info.Store, info.Limits.MaxStore = uint64(a.used.Load()), a.limit.Load()
	return info, nil
}

func quotaOf(limit, used, most int64) (*Quota, *account) {
	a := &account{}
	a.limit.Store(limit)
	a.used.Store(used)
	return newQuota(a.info, most, 1), a
}

// TestQuotaKeepsAReserve: values are refused while there is still room for
// deletes, and what objects are preferred to before that. The ballast for deletes
// takes half of the reserve.
func TestQuotaKeepsAReserve(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		limit, used, most int64
		bytes             int
		ballast           bool
		objects, events   bool
	}{
		"no quota":                            {-1, 1000 * mib, 0, mib, true, true, true},
		"plenty":                              {128 * mib, 16 * mib, 0, mib, true, true, true},
		"less than two reserves":              {128 * mib, 114 * mib, 0, mib, true, true, false},
		"less than one":                       {128 * mib, 121 * mib, 0, 1, true, false, false},
		"less than half of one":               {128 * mib, 125 * mib, 0, 1, false, false, false},
		"a value that would leave too little": {128 * mib, 100 * mib, 0, 25 * mib, false, false, false},
		"over the quota":                      {128 * mib, 130 * mib, 0, 1, false, false, false},
		"the operator's own bound":            {-1, 121 * mib, 128 * mib, 1, true, false, false},
		"a large quota keeps 64 MiB":          {10_000 * mib, 9_930 * mib, 0, mib, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, _ := quotaOf(c.limit, c.used, c.most)
				ballast, objects, events := q.ballastRoom(c.bytes), q.Room(c.bytes), q.SpareRoom(c.bytes)
				if (ballast == nil) != c.ballast || (objects == nil) != c.objects || (events == nil) != c.events {
					t.Errorf("ballast: %v, objects: %v, events: %v", ballast, objects, events)
				}
				var full *QuotaError
				if objects != nil && (!errors.As(objects, &full) || !strings.Contains(objects.Error(), "max_file")) {
					t.Errorf("%v", objects)
				}
			})
		})
	}
}

// TestQuotaCountsWhatItHasLetThrough: the server's answer is a second old, and what
// was let through since counts.
func TestQuotaCountsWhatItHasLetThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		q, a := quotaOf(64*mib, 40*mib, 0)
		written := 0
		for q.Room(2*mib) == nil && written < 20 {
			written++
			time.AfterFunc(20*time.Millisecond, func() { a.used.Add(2*mib + overhead) }) // until it is stored
		}
		if written != 9 {
			t.Errorf("%d values of 2 MiB were let through, with 20 MiB of room but for headers", written)
		}
		time.Sleep(quotaInterval)
		a.used.Store(10 * mib) // room was made
		time.Sleep(quotaInterval)
		if err := q.Room(2 * mib); err != nil {
			t.Errorf("after room was made: %v", err)
		}
		asked := a.asked.Load()
		for range 1000 {
			_ = q.Room(1)
		}
		if more := a.asked.Load() - asked; more > 1 {
			t.Errorf("the server was asked %d times within a moment", more)
		}
		a.away.Store(true)
		time.Sleep(2 * quotaInterval)
		if err := q.Room(1); err != nil {
			t.Errorf("while the server is away: %v", err)
		}
	})
}
