package natsd

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// quotaInterval is how long an answer of the server about its quota is good for,
	// and quotaAgain while writes are refused: room is noticed within a moment.
	quotaInterval, quotaAgain = time.Second, 100 * time.Millisecond
	quotaTimeout              = 2 * time.Second
	// reserveShare is the part of a quota that is kept for deletes: a sixteenth, but
	// for its bounds.
	reserveShare             = 16
	minReserve, quotaReserve = 4 << 20, 64 << 20
	// quotaTries is how often the server is asked for one write.
	quotaTries = 3
	// overhead is what a message has beside its value, in bytes.
	overhead = 512
)

// Quota watches how much of its quota an external store has left, and keeps a
// reserve: JetStream refuses everything once a quota is reached, the deletes that
// would make room included.
type Quota struct {
	info func(ctx context.Context) (*jetstream.AccountInfo, error)
	max  int64 // of the operator's own; 0: none
	// copies is how often a message counts: once for each replica.
	copies int64

	look sync.Mutex // held while the server is asked

	mu          sync.Mutex
	asked       time.Time
	limit, left int64
	// begun counts the bytes of writes, and at and before are what it was when the
	// last two questions were asked: what was begun since may not be in the answer.
	begun, at, before int64
}

// NewQuota watches the quota of js's account, whose streams have so many replicas.
// most is what they may take where the account has no quota, or a larger one; 0:
// there is no such bound.
func NewQuota(js jetstream.JetStream, most int64, replicas int) *Quota {
	return newQuota(js.AccountInfo, most, replicas)
}

func newQuota(info func(context.Context) (*jetstream.AccountInfo, error), most int64, replicas int) *Quota {
	return &Quota{info: info, max: most, copies: int64(max(1, replicas)), left: math.MaxInt64}
}

// QuotaError says that a store's quota leaves no room.
type QuotaError struct{ Left, Limit, Reserve int64 }

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the NATS account is full: of %d MiB %d are left, and %d are kept for deletes;"+
		" delete objects, or raise the account's JetStream max_file (or --nats-max-bytes)",
		e.Limit>>20, max(0, e.Left)>>20, e.Reserve>>20)
}

// Room says why a value of so many bytes should not be written: a *QuotaError. It
// asks the server once a second at most.
func (q *Quota) Room(bytes int) error { return q.room(bytes, 2) }

// SpareRoom is Room for what objects are preferred to, such as events: these leave
// a second reserve to objects.
func (q *Quota) SpareRoom(bytes int) error { return q.room(bytes, 4) }

// ballastRoom is Room for the ballast, which may take half of the reserve: both are
// for deletes, and nobody else can take the ballast.
func (q *Quota) ballastRoom(bytes int) error { return q.room(bytes, 1) }

// room leaves the given number of halves of the reserve.
func (q *Quota) room(bytes int, halves int64) error {
	size := int64(bytes+overhead) * q.copies
	q.refresh(quotaInterval)
	for tries := 0; ; tries++ {
		full, certain := q.take(size, halves)
		switch {
		case full == nil:
			return nil
		case certain && tries > 0 || tries == quotaTries:
			return full
		case tries > 0: // what was begun lately may be in the next answer
			time.Sleep(quotaAgain)
		}
		q.refresh(quotaAgain)
	}
}

// take counts a write in, where there is room for it. certain is false where there
// may be, once it is known what became of the writes before.
func (q *Quota) take(size, halves int64) (full *QuotaError, certain bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	reserve := halves * min(quotaReserve, max(minReserve, q.limit/reserveShare)) / 2
	pending := q.begun - q.before
	if q.left-pending-size < reserve {
		return &QuotaError{Left: q.left, Limit: q.limit, Reserve: reserve}, q.left-size < reserve
	}
	q.begun += size
	return nil, true
}

// refresh asks the server, unless the last answer is young enough or another caller
// asks already. While the server does not answer, its last answer stands: the write
// itself will fail.
func (q *Quota) refresh(interval time.Duration) {
	q.mu.Lock()
	first, fresh := q.asked.IsZero(), time.Since(q.asked) < interval
	q.mu.Unlock()
	switch {
	case fresh:
		return
	case first:
		q.look.Lock() // there is no answer to use meanwhile
	case !q.look.TryLock():
		return
	}
	defer q.look.Unlock()
	q.mu.Lock()
	if time.Since(q.asked) < interval { // another caller has asked meanwhile
		q.mu.Unlock()
		return
	}
	begun := q.begun
	q.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), quotaTimeout)
	defer cancel()
	info, err := q.info(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked = time.Now()
	if err != nil {
		return
	}
	q.before, q.at = q.at, begun
	q.left, q.limit = tightest(info, q.max)
}

// tightest returns what is left of the limit that leaves least.
func tightest(info *jetstream.AccountInfo, own int64) (left, limit int64) {
	left, limit = math.MaxInt64, math.MaxInt64
	consider := func(used uint64, most int64) {
		if most > 0 && most-int64(used) < left {
			left, limit = most-int64(used), most
		}
	}
	consider(info.Store, info.Limits.MaxStore)
	consider(info.Store, own)
	for name, tier := range info.Tiers {
		replicas := int64(1)
		_, _ = fmt.Sscanf(name, "R%d", &replicas) // a tier counts its copies, its limit does not
		consider(tier.Store, tier.Limits.MaxStore*replicas)
	}
	return left, limit
}

const (
	// maxStore is no limit: JetStream would take three quarters of what was free
	// when it started, refuse even deletes at that point, and not notice that
	// room was made.
	maxStore = math.MaxInt64 / 4
	// reserve is kept free. Deletes, which make room, have to be written too, and
	// rewrite a block of several MiB; and a write that does meet a full disk is
	// only forgotten by a restart.
	reserve = 64 << 20
	// roomInterval is how long a look at the disk is good for.
	roomInterval = 100 * time.Millisecond
)

// FullError says that the disk of the store has no room.
type FullError struct {
	Dir string
	// Free is what is left, in bytes.
	Free uint64
}

func (e *FullError) Error() string {
	return fmt.Sprintf("the disk of %s is full: %d MiB are free and %d MiB are kept for deletes; delete objects or "+
		"make room",
		e.Dir, e.Free>>20, reserve>>20)
}

// room is the last look at the disk.
type room struct {
	mu     sync.Mutex
	looked time.Time
	free   uint64 // bytes; the greatest number where the system does not tell
}

// Room says why nothing more should be written, however small: a *FullError. It is
// cheap, and notices within a moment that room was made.
func (s *Server) Room(int) error { return s.roomAbove(reserve) }

// SpareRoom is Room for what objects are preferred to: it leaves them a second reserve.
func (s *Server) SpareRoom(int) error { return s.roomAbove(2 * reserve) }

func (s *Server) roomAbove(kept uint64) error {
	s.room.mu.Lock()
	defer s.room.mu.Unlock() // also during the first look, before which nothing is known
	if time.Since(s.room.looked) > roomInterval {
		free, ok := diskSpace(s.storeDir)
		if !ok {
			free = math.MaxUint64
		}
		s.room.looked, s.room.free = time.Now(), free
	}
	if s.room.free <= kept {
		return &FullError{Dir: filepath.Dir(s.storeDir), Free: s.room.free}
	}
	return nil
}
