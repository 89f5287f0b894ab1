package kvstore

import (
	"sort"
	"sync"

	"github.com/google/btree"
)

const (
	// A watch resumes, and a page of a list is completed, within the last
	// maxWindowEvents changes, as long as their values fit into Options.WindowBytes.
	maxWindowEvents = 10_000
	// MaxWindowBytes is the default of Options.WindowBytes.
	MaxWindowBytes = 64 << 20

	treeDegree = 32
)

// event is one change, with what it changed: from that the window can be undone.
type event struct {
	rev  uint64
	put  *entry // nil: the key ended
	prev *entry // nil: the key began
}

func (e *event) key() string {
	if e.put != nil {
		return e.put.Key
	}
	return e.prev.Key
}

func (e *event) size() int {
	n := 0
	if e.put != nil {
		n += len(e.put.Value)
	}
	if e.prev != nil {
		n += len(e.prev.Value)
	}
	return n
}

// mirror is the bucket in memory: its entries in the order of their keys, and
// the window of events that led there. Entries never change once they are in.
type mirror struct {
	mu    sync.RWMutex
	tree  *btree.BTreeG[*entry]
	bytes int64
	stale int // entries
	rev   uint64

	// events[0] is number first. Numbers continue after a reset, which leaves a gap,
	// so that a reader behind it notices.
	events      []event
	first       uint64
	windowBytes int
	maxWindow   int
	// floor is the oldest revision that the window can go back to.
	floor     uint64
	compacted uint64
	// changed is closed, and replaced, by each change of rev.
	changed chan struct{}
}

func newTree() *btree.BTreeG[*entry] {
	return btree.NewG(treeDegree, func(a, b *entry) bool { return a.Key < b.Key })
}

func newMirror(maxWindow int) *mirror {
	return &mirror{tree: newTree(), changed: make(chan struct{}), maxWindow: maxWindow}
}

func (m *mirror) get(key string) *entry {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, _ := m.tree.Get(&entry{Item: Item{Key: key}})
	return e
}

func (m *mirror) revision() uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.rev
}

// stats returns the number of entries and the bytes of their values.
func (m *mirror) stats() (count, size int64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return int64(m.tree.Len()), m.bytes
}

// put stores an entry and records the event.
func (m *mirror) put(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	prev, _ := m.tree.ReplaceOrInsert(e)
	m.count(e, 1)
	m.count(prev, -1)
	m.append(event{rev: e.Revision, put: e, prev: prev})
}

// remove ends a key at a revision. It returns the last entry, nil if the key was
// not there.
func (m *mirror) remove(key string, rev uint64) (prev *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	prev, ok := m.tree.Delete(&entry{Item: Item{Key: key}})
	if !ok {
		m.advance(rev)
		return nil
	}
	m.count(prev, -1)
	m.append(event{rev: rev, prev: prev})
	return prev
}

// count adds an entry, which may be nil, to the sums or, with -1, takes it out.
func (m *mirror) count(e *entry, sign int) {
	if e == nil {
		return
	}
	m.bytes += int64(sign * len(e.Value))
	if e.stale {
		m.stale += sign
	}
}

// staleEntries counts the entries that are stale.
func (m *mirror) staleEntries() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.stale
}

func (m *mirror) append(e event) {
	m.events = append(m.events, e)
	m.windowBytes += e.size()
	drop := 0
	for drop < len(m.events) && (len(m.events)-drop > maxWindowEvents || m.windowBytes > m.maxWindow) {
		m.windowBytes -= m.events[drop].size()
		drop++
	}
	m.drop(drop)
	m.advance(e.rev)
}

// drop forgets the n oldest events. The slice's head is given up as it moves on;
// append moves the rest to a new array now and then.
func (m *mirror) drop(n int) {
	if n == 0 {
		return
	}
	m.floor = max(m.floor, m.events[n-1].rev)
	m.compacted = max(m.compacted, m.floor)
	clear(m.events[:n])
	m.events = m.events[n:]
	m.first += uint64(n)
}

// observe moves the revision on where there is nothing to apply.
func (m *mirror) observe(rev uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(rev)
}

func (m *mirror) advance(rev uint64) {
	if rev <= m.rev {
		return
	}
	m.rev = rev
	close(m.changed)
	m.changed = make(chan struct{})
}

// reset replaces everything. The window begins again at rev.
func (m *mirror) reset(tree *btree.BTreeG[*entry], rev uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tree, m.bytes, m.stale = tree, 0, 0
	tree.Ascend(func(e *entry) bool {
		m.count(e, 1)
		return true
	})
	m.first += uint64(len(m.events)) + 1
	m.events, m.windowBytes = nil, 0
	m.rev, m.floor, m.compacted = rev, rev, 0
	close(m.changed)
	m.changed = make(chan struct{})
}

// snapshot is the bucket as it was at a revision.
type snapshot struct {
	tree *btree.BTreeG[*entry]
	rev  uint64
	// next is the number of the first event after it.
	next uint64
}

// current returns the newest snapshot.
func (m *mirror) current() snapshot {
	m.mu.Lock() // not RLock: Clone changes the original's bookkeeping
	defer m.mu.Unlock()
	return m.currentLocked()
}

func (m *mirror) currentLocked() snapshot {
	return snapshot{tree: m.tree.Clone(), rev: m.rev, next: m.first + uint64(len(m.events))}
}

// at returns the snapshot of an earlier revision, or false if the window does not
// go back that far.
func (m *mirror) at(rev uint64) (snapshot, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if rev < m.floor || rev > m.rev {
		return snapshot{}, false
	}
	tree := m.tree.Clone()
	i := len(m.events)
	for ; i > 0 && m.events[i-1].rev > rev; i-- {
		if e := &m.events[i-1]; e.prev != nil {
			tree.ReplaceOrInsert(e.prev)
		} else {
			tree.Delete(e.put)
		}
	}
	return snapshot{tree: tree, rev: rev, next: m.first + uint64(i)}, true
}

// position returns the number of the first event after a revision, or false if the
// window does not go back that far, or the revision is not reached yet.
func (m *mirror) position(rev uint64) (uint64, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if rev < m.floor || rev > m.rev {
		return 0, false
	}
	i := sort.Search(len(m.events), func(i int) bool { return m.events[i].rev > rev })
	return m.first + uint64(i), true
}

// read copies the events from number next on into buf. At the end of the window
// there are none: rev is then the revision reached, and changed is closed once there
// are more. ok is false if the window has moved past next.
func (m *mirror) read(next uint64, buf []event) (n int, rev uint64, changed <-chan struct{}, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if next < m.first || next > m.first+uint64(len(m.events)) {
		return 0, 0, nil, false
	}
	n = copy(buf, m.events[next-m.first:])
	return n, m.rev, m.changed, true
}
