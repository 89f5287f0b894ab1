// Package members keeps an object of the kind Member for each server of a store: every server writes how it is, and
// one of them notes which others are missing.
package members

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
)

// pace has the times of a Book.
type pace struct {
	// write is how often a server writes its Member where nothing changes. look is how often it looks whether something
	// has changed.
	write, look time.Duration
	// missing is how long a server that writes nothing is not missing yet.
	missing time.Duration
}

var usualPace = pace{write: 10 * time.Second, look: 2 * time.Second, missing: 30 * time.Second}

const (
	// keep is how long a Member is kept that nobody writes any more.
	keep = 24 * time.Hour
	// writeTimeout bounds a write, which is tried again.
	writeTimeout = 5 * time.Second
	// maxErrors and maxError bound the errors of a Member, and each in bytes.
	maxErrors, maxError = 10, 300

	prefix = "/" + kinds.Members + "/"
)

// Work is the name of the work that notes which servers are missing; see package leading.
const Work = "members"

// Store is the part of the store that a Book needs.
type Store interface {
	GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
		preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object) error
	Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
		validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error
}

// Options are the parts of a Book.
type Options struct {
	// Server is the id of this server, and Host the name of its machine.
	Server, Host string
	// Exclusive is true where no other server has the store.
	Exclusive bool
	// Describe returns how this server is. The Book sets the id, started, lastSeen, and state by the errors; and
	// lastBackup.
	Describe func() v1.MemberStatus
	// Lead has work done by one of the servers; see leading.Elections.
	Lead func(ctx context.Context, name string, work func(context.Context))
	// Logger takes which servers are missing; nil discards it.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// seen is a Member as the store has it.
type seen struct {
	*v1.Member
	// at is when this server has seen the last change: no clock of another server counts.
	at time.Time
}

// Book has the Members, as their observer, and writes that of this server. It is safe for concurrent use.
type Book struct {
	opts    Options
	pace    pace
	started metav1.Time
	wake    chan struct{}

	mu      sync.Mutex
	members map[string]seen
	loaded  bool
	backup  *metav1.Time

	// Of Run alone:

	// name is that of the own Member, written what was written last, and at when.
	name    string
	written v1.MemberStatus
	at      time.Time
}

// New returns a Book, which writes nothing before Run.
func New(opts Options) *Book {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	b := &Book{
		opts: opts, pace: usualPace, started: metav1.Now(), wake: make(chan struct{}, 1), members: map[string]seen{},
		name: nameOf(opts.Host),
	}
	if opts.Registerer != nil {
		opts.Registerer.MustRegister(collector{b})
	}
	return b
}

// nameOf makes a name of an object of that of a machine.
func nameOf(host string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, strings.ToLower(host)), "-.")
	return cmp.Or(name[:min(len(name), 63)], "server")
}

// SetLastBackup notes when this server has made its last good backup. It is written at once, and stays when the server
// is started again.
func (b *Book) SetLastBackup(at time.Time) {
	b.mu.Lock()
	b.backup = new(metav1.NewTime(at))
	b.mu.Unlock()
	b.Changed()
}

// Changed has it written at once how this server is, if that has changed.
func (b *Book) Changed() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Run writes how this server is until ctx ends, and then that it was stopped. It leads the look at the others, or
// waits to.
func (b *Book) Run(ctx context.Context, store Store) {
	var running sync.WaitGroup
	if !b.opts.Exclusive {
		running.Go(func() {
			b.opts.Lead(ctx, Work, func(ctx context.Context) { b.watch(ctx, store) })
		})
	}
	ticker := time.NewTicker(b.pace.look)
	defer ticker.Stop()
	for ctx.Err() == nil {
		b.beat(ctx, store)
		select {
		case <-ctx.Done():
		case <-b.wake:
		case <-ticker.C:
		}
	}
	running.Wait()
	b.stopped(context.WithoutCancel(ctx), store)
}

// own returns what the store has of this server.
func (b *Book) own() (s v1.MemberStatus, isRead bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m, ok := b.members[b.name]; ok {
		s = m.Status
	}
	return s, b.loaded
}

// beat writes how this server is, if it is time or something has changed.
func (b *Book) beat(ctx context.Context, store Store) {
	there, isRead := b.own()
	if !isRead {
		return // the names that others have are not known
	}
	next := b.status()
	if b.at.IsZero() && next.State != v1.MemberReady && time.Since(b.started.Time) < b.pace.look {
		return // it has just begun to read the store
	}
	// Another server may have noted that this one is missing, or somebody has deleted the object.
	isRight := there.ID == next.ID && there.State == next.State
	if isRight && time.Since(b.at) < b.pace.write && isSame(&b.written, &next) {
		return
	}
	if err := b.write(ctx, store, &next); err != nil {
		b.opts.Logger.Debug("how this server is could not be written", "error", err)
		return
	}
	if b.at.IsZero() {
		b.clear(ctx, store)
	}
	b.written, b.at = next, time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backup = cmp.Or(b.backup, next.LastBackup) // from before the start
}

// status returns how this server is.
func (b *Book) status() v1.MemberStatus {
	s := b.opts.Describe()
	s.ID, s.Started, s.LastSeen, s.State = b.opts.Server, b.started, metav1.Now(), v1.MemberReady
	if len(s.Errors) > 0 {
		s.State = v1.MemberNotReady
	}
	s.Errors = s.Errors[:min(len(s.Errors), maxErrors)]
	for i, text := range s.Errors {
		s.Errors[i] = strings.ToValidUTF8(text[:min(len(text), maxError)], "")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.LastBackup = b.backup
	return s
}

// isSame reports whether what was written need not be written again at once.
func isSame(old, next *v1.MemberStatus) bool {
	return old.State == next.State && slices.Equal(old.Errors, next.Errors) && slices.Equal(old.Leads, next.Leads) &&
		slices.Equal(old.Images, next.Images) &&
		old.LastBackup.Equal(next.LastBackup)
}

// errTaken says that another server, which runs, has the name.
var errTaken = errors.New("another server has the name")

// write writes the Member of this server. If another server that runs has the name, the id makes it another one.
func (b *Book) write(ctx context.Context, store Store, next *v1.MemberStatus) error {
	err := b.put(ctx, store, next)
	if errors.Is(err, errTaken) {
		b.name = nameOf(b.opts.Host) + "-" + strings.ToLower(b.opts.Server[:min(len(b.opts.Server), 5)])
		err = b.put(ctx, store, next)
	}
	return err
}

func (b *Book) put(ctx context.Context, store Store, next *v1.MemberStatus) error {
	return update(ctx, store, b.name, true, func(m *v1.Member) error {
		switch {
		case m.Name == "":
			m.Name, m.UID, m.CreationTimestamp = b.name, uuid.NewUUID(), metav1.Now()
		case m.Status.ID == next.ID && next.LastBackup == nil:
			next.LastBackup = m.Status.LastBackup
		case m.Status.ID != next.ID && (m.Status.State == v1.MemberReady || m.Status.State == v1.MemberNotReady) &&
			!b.opts.Exclusive:
			return errTaken
		}
		m.Status = *next
		return nil
	})
}

// update changes a Member.
func update(ctx context.Context, store Store, name string, isNew bool, change func(*v1.Member) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return store.GuaranteedUpdate(ctx, prefix+name, &v1.Member{}, isNew, nil,
		func(obj runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			m := obj.(*v1.Member)
			return m, new(uint64(keep / time.Second)), change(m)
		}, nil)
}

// clear removes the Members of this server under former names, and those of servers that the store had before: with the
// embedded store there is no other.
func (b *Book) clear(ctx context.Context, store Store) {
	b.mu.Lock()
	var former []seen
	for name, m := range b.members {
		if name != b.name && (b.opts.Exclusive || m.Status.ID == b.opts.Server) {
			former = append(former, m)
		}
	}
	b.mu.Unlock()
	for _, m := range former {
		err := store.Delete(ctx, prefix+m.Name, &v1.Member{}, storage.NewUIDPreconditions(string(m.UID)),
			storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
		if err != nil && !storage.IsNotFound(err) {
			b.opts.Logger.Debug("a Member of before cannot be removed", "object", kinds.Members+"/"+m.Name, "error", err)
		}
	}
}

// stopped writes that this server was stopped.
func (b *Book) stopped(ctx context.Context, store Store) {
	if b.at.IsZero() {
		return // it has never been written
	}
	next := b.status()
	next.State, next.Errors, next.Leads = v1.MemberStopped, nil, nil
	if err := b.put(ctx, store, &next); err != nil {
		b.opts.Logger.Debug("it could not be written that this server was stopped", "error", err)
	}
}

// watch notes which of the other servers are missing, until ctx ends. It begins with what it sees now: while the store
// was away, nobody could write.
func (b *Book) watch(ctx context.Context, store Store) {
	began := time.Now()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if time.Since(began) < b.pace.missing {
			return
		}
		for _, m := range b.overdue() {
			if err := b.miss(ctx, store, m); err != nil {
				b.opts.Logger.Debug("it could not be written that a server is missing", "object", m.Name, "error", err)
			}
		}
	}, b.pace.look)
}

// overdue returns the Members of the other servers that have not been written for too long.
func (b *Book) overdue() (all []*v1.Member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.members {
		isRunning := m.Status.State == v1.MemberReady || m.Status.State == v1.MemberNotReady
		if isRunning && m.Status.ID != b.opts.Server && time.Since(m.at) > b.pace.missing {
			all = append(all, m.Member)
		}
	}
	return all
}

// errSeen says that a server has written its Member after all.
var errSeen = errors.New("it was seen again")

// miss notes that a server is missing.
func (b *Book) miss(ctx context.Context, store Store, missing *v1.Member) error {
	err := update(ctx, store, missing.Name, false, func(m *v1.Member) error {
		if m.UID != missing.UID || m.Status.ID != missing.Status.ID || !m.Status.LastSeen.Equal(&missing.Status.LastSeen) ||
			m.Status.State != missing.Status.State {
			return errSeen
		}
		m.Status.State, m.Status.Errors, m.Status.Leads = v1.MemberMissing, nil, nil
		return nil
	})
	if errors.Is(err, errSeen) || storage.IsNotFound(err) {
		return nil
	}
	if err == nil {
		b.opts.Logger.Warn("a server is missing", "object", kinds.Members+"/"+missing.Name,
			"address", missing.Status.Address, "last_seen", missing.Status.LastSeen.Time)
	}
	return err
}
