package kvstore

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"

	"glowplug/internal/store/replicas"
)

// barrierKey is the key, in the characters of a subject, of the message that a
// barrier writes. It is the key of no object: EncodeKey does not give it.
const barrierKey = "=barrier"

// barrier returns once the mirror holds all that the bucket held when it was
// called. Every write of this process that was answered is in the mirror anyway;
// others' writes need a question to NATS. An error says that the question was not
// answered: what the mirror has may be old then.
func (s *writer) barrier(ctx context.Context) error {
	if !s.connection.Loaded() {
		return s.connection.unavailable()
	}
	if s.bucket.opts.Exclusive {
		return nil
	}
	l, ok := s.connection.connected()
	if !ok || !s.connection.up.Load() {
		return s.connection.unavailable()
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	last, err := s.lastRevision(ctx, l)
	switch {
	case isFull(err):
		return insufficientStorage(fmt.Errorf("NATS has no room for the message that a read of %s needs: "+
			"make room in its account, or raise its JetStream limits (max_file)", s.bucket.kind.Resource))
	case err != nil:
		return s.connection.timeout("reading the bucket's state")
	}
	s.contents.metrics.last.Store(last)
	if !s.contents.progress.await(ctx, last) {
		return s.connection.timeout("catching up with the bucket")
	}
	return nil
}

// lastRevision returns a revision that no write is after which was acknowledged
// before the call. One server knows the last one. In a cluster the one that takes
// itself for the leader may have been deposed; a message that a majority has
// accepted says what came before it. Calls share such a message with others that
// began before it was sent.
func (s *writer) lastRevision(ctx context.Context, l *link) (uint64, error) {
	if l.replicas < 2 {
		ctx, cancel := context.WithTimeout(ctx, barrierTimeout)
		defer cancel()
		info, err := l.stream.Info(ctx)
		if err != nil {
			return 0, err
		}
		if !replicas.Led(info) {
			return 0, errNoLeader
		}
		return info.State.LastSeq, nil
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case answer := <-s.barriers.join(func() (uint64, error) { return s.publishBarrier(context.Background(), l) }):
		return answer.Val.(uint64), answer.Err
	}
}

// publishBarrier writes the message of a barrier, and returns its revision.
func (s *writer) publishBarrier(ctx context.Context, l *link) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	subject := s.bucket.subjectPrefix + barrierKey
	var ack *jetstream.PubAck
	publish := func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, barrierTimeout)
		defer cancel()
		ack, err = l.js.PublishMsg(ctx, nats.NewMsg(subject), jetstream.WithRetryAttempts(0))
		return err
	}
	err := publish()
	if isFull(err) { // the barrier before leaves the room of one
		if err := l.stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return 0, fmt.Errorf("making room for a barrier: %w", err)
		}
		err = s.bucket.makeRoom(ctx, l, publish)
	}
	if err != nil {
		return 0, fmt.Errorf("asking the bucket's servers: %w", err)
	}
	return ack.Sequence, nil
}

// awaitRevision makes the mirror new enough for a read: not older than the given
// revision, and as new as the bucket for "". So it is for "0", which allows
// anything, where NATS answers soon: a client does not go back in time by asking
// another replica. While NATS does not answer, "0" is what can still be read.
func (s *writer) awaitRevision(ctx context.Context, resourceVersion string) error {
	if !s.connection.Loaded() {
		return s.connection.unavailable()
	}
	switch resourceVersion {
	case "":
		return s.barrier(ctx)
	case "0":
		ctx, cancel := context.WithTimeout(ctx, anyTimeout)
		defer cancel()
		_ = s.barrier(ctx)
		return nil
	}
	rev, err := s.bucket.versioner.ParseResourceVersion(resourceVersion)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	return s.awaitReached(ctx, rev)
}

// awaitReached waits for a revision that the bucket has, and refuses one that it
// does not have.
func (s *writer) awaitReached(ctx context.Context, rev uint64) error {
	if rev <= s.contents.mirror.revision() {
		return nil
	}
	if err := s.barrier(ctx); err != nil {
		return err
	}
	if reached := s.contents.mirror.revision(); rev > reached {
		return storage.NewTooLargeResourceVersionError(rev, reached, 1)
	}
	return nil
}

// rounds lets callers share questions. A caller never joins one that was begun
// before it came.
type rounds struct {
	group  singleflight.Group
	asking sync.Mutex
	begun  atomic.Uint64
}

// join asks as soon as no question is under way, with all who join until then.
func (r *rounds) join(ask func() (uint64, error)) <-chan singleflight.Result {
	return r.group.DoChan(strconv.FormatUint(r.begun.Load(), 10), func() (any, error) {
		r.asking.Lock()
		defer r.asking.Unlock()
		r.begun.Add(1)
		return ask()
	})
}

// progress is the revision that a bucket has reached.
type progress struct {
	mu  sync.Mutex
	rev uint64
	// waiting are the revisions that callers wait for, by the channel that is closed then.
	waiting map[chan struct{}]uint64
}

// reach moves on to a revision.
func (p *progress) reach(rev uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setLocked(max(p.rev, rev))
}

// restart begins again at a revision, which may be lower.
func (p *progress) restart(rev uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setLocked(rev)
}

func (p *progress) setLocked(rev uint64) {
	p.rev = rev
	for reached, wanted := range p.waiting {
		if wanted <= rev {
			close(reached)
			delete(p.waiting, reached)
		}
	}
}

// await waits for a revision. It returns false if ctx ends first.
func (p *progress) await(ctx context.Context, rev uint64) bool {
	p.mu.Lock()
	if rev <= p.rev {
		p.mu.Unlock()
		return true
	}
	reached := make(chan struct{})
	if p.waiting == nil {
		p.waiting = map[chan struct{}]uint64{}
	}
	p.waiting[reached] = rev
	p.mu.Unlock()
	select {
	case <-reached:
		return true
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting, reached)
		return rev <= p.rev
	}
}
