package rendering

import (
	"math"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"glowplug/internal/domain/match"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/template"
)

// resultBytes is approximately the memory of a result without its artifact and its texts.
const resultBytes = 1300

// Version identifies the input of a rendering: the template with its layers, and the facts
// of the machine. It does not include the revision of the host, which changes with each
// boot.
type Version struct {
	source, format string
	facts          template.Key
}

// machine identifies a machine and the template that it is given, each with its UID.
type machine struct {
	config, host       Ref
	configUID, hostUID string
	// typ is the type of the template: an update of the object can change it.
	typ string
	// role is the role that the request named and was granted; "": the role is that of the
	// host's object. Requests with another role have other results.
	role string
	// stranger are the facts of a machine that is no known host.
	stranger template.Key
}

// machineOf returns the machine of a request. facts are nil where they are the host's own.
func machineOf(config *model.Config, host *model.Host, facts *template.Facts) machine {
	m := machine{config: config.Ref, configUID: config.UID, typ: config.Type}
	switch {
	case host == nil:
		m.stranger = facts.Key()
		return m
	case facts != nil:
		m.role = facts.Labels[match.RoleLabel]
	}
	m.host, m.hostUID = host.Ref, host.UID
	return m
}

// entry is the cached results for a machine. They are immutable.
type entry struct {
	version Version
	latest  *Result
	// good is the last result that has an artifact; nil: there was none.
	good *Result
	// last is the answer to the last request without claims of a host.
	last atomic.Pointer[answer]
}

// answer is the served config for the objects of a request. While these objects do not
// change, the facts of the host need not be hashed again.
type answer struct {
	config, served *model.Config
	host           *model.Host
}

// lastAnswer returns the config of the last answer if it was for the same template, layers
// and host; nil otherwise.
func (e *entry) lastAnswer(task *Task, host *model.Host) *model.Config {
	if e == nil || e.version.source != task.Source {
		return nil
	}
	if last := e.last.Load(); last != nil && last.config == task.config && last.host == host {
		return last.served
	}
	return nil
}

// lastGood returns the newest result with an artifact; nil: there is none.
func (e *entry) lastGood() *Result {
	if e == nil {
		return nil
	}
	return e.good
}

func (e *entry) bytes() int {
	n := e.latest.bytes()
	if e.good != nil && e.good != e.latest {
		n += e.good.bytes()
	}
	return n
}

// bytes returns the memory of a result without its artifact.
func (r *Result) bytes() int {
	n := resultBytes + len(r.Message)
	if r.stack != nil {
		n += len(r.stack.Own)
	}
	for _, w := range r.Warnings {
		n += len(w)
	}
	return n
}

// results are the entries of hosts or of strangers, within a bound. Artifacts with the same
// hash share their bytes. The cache's mutex guards it.
type results struct {
	*lru[machine, *entry]
	artifacts map[string]*artifact // by hash
}

type artifact struct {
	bytes []byte
	uses  int
}

func newResults(limit int) *results {
	r := &results{artifacts: map[string]*artifact{}}
	r.lru = newLRU[machine](limit, func(e *entry) {
		r.release(e.latest)
		if e.good != e.latest {
			r.release(e.good)
		}
	})
	return r
}

// add caches a result as the latest of a machine. The last good one stays beside it where
// the new one has no artifact.
func (r *results) add(machine machine, version Version, made *Result) {
	// A clone, because these strings can be parts of the config's text, which a cached version
	// must not keep in memory.
	version.source, version.format = strings.Clone(version.source), strings.Clone(version.format)
	e := &entry{version: version, latest: made, good: made}
	if made.Artifact == nil {
		e.good = nil
		if before := r.get(machine); before != nil {
			e.good = before.good
			r.retain(e.good)
		}
	}
	r.retain(made)
	r.put(machine, e, e.bytes())
}

// retain counts a use of a result's artifact, and replaces its bytes by those of the cached
// artifact with the same hash.
func (r *results) retain(result *Result) {
	if result == nil || result.Artifact == nil {
		return
	}
	a := r.artifacts[result.Hash]
	if a == nil {
		a = &artifact{bytes: result.Artifact}
		r.artifacts[result.Hash] = a
		r.size += len(a.bytes)
	}
	a.uses++
	result.Artifact = a.bytes
}

func (r *results) release(result *Result) {
	if result == nil || result.Artifact == nil {
		return
	}
	a := r.artifacts[result.Hash]
	if a.uses--; a.uses == 0 {
		r.size -= len(a.bytes)
		delete(r.artifacts, result.Hash)
	}
}

// lru is a cache that is bounded by the bytes that its values take; the newest stays
// however large it is. Its owner holds a lock.
type lru[K comparable, V any] struct {
	entries     *simplelru.LRU[K, sized[V]]
	limit, size int
}

type sized[V any] struct {
	value V
	bytes int
}

// newLRU returns an empty cache. dropped is called with a value that is removed or
// replaced; nil: nothing is.
func newLRU[K comparable, V any](limit int, dropped func(V)) *lru[K, V] {
	l := &lru[K, V]{limit: limit}
	l.entries, _ = simplelru.NewLRU(math.MaxInt, func(_ K, s sized[V]) {
		l.size -= s.bytes
		if dropped != nil {
			dropped(s.value)
		}
	})
	return l
}

func (l *lru[K, V]) get(key K) V {
	s, _ := l.entries.Get(key)
	return s.value
}

func (l *lru[K, V]) put(key K, value V, bytes int) {
	l.entries.Remove(key)
	l.size += bytes
	l.entries.Add(key, sized[V]{value, bytes})
	for l.size > l.limit && l.entries.Len() > 1 {
		l.entries.RemoveOldest()
	}
}
