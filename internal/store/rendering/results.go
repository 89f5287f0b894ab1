package rendering

import (
	"glowplug/internal/domain/match"
	"glowplug/internal/domain/template"
	"glowplug/internal/store/snapshot"
)

// resultBytes is what a result takes beside its own bytes, about.
const resultBytes = 1300

// Version names all that a result depends on: the template with its layers, and the
// facts of the machine. The revision of the host, which changes with every boot, is no
// part of it.
type Version struct {
	source, format string
	facts          template.Key
}

// subject is a machine and the template that it is given, each with its UID.
type subject struct {
	config, host       Ref
	configUID, hostUID string
	// typ is the type of the template, which may become another's.
	typ string
	// role is one that the machine asked for and was granted: the result is for no
	// request without it. "" is the role in the host's object.
	role string
	// stranger are the facts of a machine that is no known host.
	stranger template.Key
}

// subjectOf returns the subject of a request. facts are nil where they are the host's
// own.
func subjectOf(config *snapshot.Config, host *snapshot.Host, facts *template.Facts) subject {
	s := subject{config: config.Ref, configUID: config.UID, typ: config.Type}
	switch {
	case host == nil:
		s.stranger = facts.Key()
		return s
	case facts != nil:
		s.role = facts.Labels[match.RoleLabel]
	}
	s.host, s.hostUID = host.Ref, host.UID
	return s
}

// entry is the cached state of a subject.
type entry struct {
	version Version
	latest  *Result
	// good is the last result that has an artifact; nil: there was none.
	good *Result
	// config and host are the objects of the last request, and answer what it was given
	// of version: most requests are of objects that have not changed since, whose facts
	// need not be hashed. All are nil before there was a request.
	config *snapshot.Config
	host   *snapshot.Host
	answer *snapshot.Config
}

func (e *entry) bytes() int {
	n := e.latest.bytes()
	if e.good != nil && e.good != e.latest {
		n += e.good.bytes()
	}
	return n
}

// bytes returns what a result takes without its artifact.
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

// results are the entries of hosts or of strangers, within a bound. Equal artifacts are
// held once. Its owner holds a lock.
type results struct {
	*lru[subject, *entry]
	artifacts map[string]*artifact // by hash
}

type artifact struct {
	bytes []byte
	uses  int
}

func newResults(limit int) *results {
	r := &results{artifacts: map[string]*artifact{}}
	r.lru = newLRU[subject](limit, func(e *entry) {
		r.release(e.latest)
		if e.good != e.latest {
			r.release(e.good)
		}
	})
	return r
}

// find returns the result of a version; nil: it is not cached.
func (r *results) find(who subject, version Version) *Result {
	if e := r.get(who); e != nil && e.version == version {
		return e.latest
	}
	return nil
}

// add caches a result as the latest of a subject.
func (r *results) add(who subject, version Version, made *Result) {
	e := &entry{version: version, latest: made, good: made}
	if made.Artifact == nil {
		if before := r.get(who); before != nil {
			e.good = before.good
			r.retain(e.good)
		} else {
			e.good = nil
		}
	}
	r.retain(made)
	r.put(who, e, e.bytes())
}

// retain counts a use of a result's artifact, and makes it share the bytes of its equals.
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
