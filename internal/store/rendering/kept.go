package rendering

import (
	"container/list"

	"glowplug/internal/domain/compile"
	"glowplug/internal/store/snapshot"
)

// entryCost is what a rendering takes beside its bytes, about.
const entryCost = 1300

// kept are renderings within a bound. What was used longest ago is forgotten first;
// what was used since anything was last put is as good as new. Its owner holds a lock.
type kept struct {
	limit, size int
	entries     map[key]*list.Element // of *entry
	order       list.List             // what was used last is in front
	// puts counts what was put: until the next one, nothing is forgotten, and the
	// order of what is used need not be known.
	puts int
	// bodies has each artifact once, by its hash.
	bodies map[string]*body
	hosts  map[owner]*given
	// asked finds what a host was given by what asked for it: most requests are of a
	// host and a template that have not changed since, and its key is short.
	asked map[pair]*given
}

// pair is a template and a host as they were, by their place in memory.
type pair struct {
	config *snapshot.Config
	host   *snapshot.Host
}

// owner is a host and the template that it is given, each with its UID.
type owner struct {
	config, host       Ref
	configUID, hostUID string
	// typ is the type of the template, which may become another's.
	typ string
	// role is one that was asked for and granted: what it gives is for no request
	// without it. "" is what the host's object says.
	role string
}

// given is what a host was given of a template. Either may be nil.
type given struct {
	// good is the last rendering that has an artifact.
	good *entry
	// now is the rendering of the template with the hash source for the host as it is
	// at revision: while both stay, its facts need not be looked at.
	now      *entry
	source   string
	revision uint64
	// pair is what asked for it last, and config what it was given, when so much had
	// been put: its template, with what now has in its place; nil until it has asked
	// again.
	pair   pair
	config *snapshot.Config
	taken  int
}

// outdate says that now is not what the host is to be given.
func (g *given) outdate() { g.now, g.config = nil, nil }

type entry struct {
	key      key
	who      owner
	rendered *Rendered
	// at is its place in the order, taken when so much had been put.
	at    *list.Element
	taken int
}

type body struct {
	bytes []byte
	used  int
}

func newKept(limit int) kept {
	return kept{limit: limit, entries: map[key]*list.Element{}, bodies: map[string]*body{}, hosts: map[owner]*given{}, asked: map[pair]*given{}}
}

func (c *kept) find(k key) *Rendered {
	e := c.entries[k]
	if e == nil {
		return nil
	}
	return c.use(e.Value.(*entry))
}

// last gives the last good rendering for a host, as long as that is kept.
func (c *kept) last(who owner) *Rendered {
	if g := c.hosts[who]; g != nil && g.good != nil {
		return c.use(g.good)
	}
	return nil
}

// use gives what an entry has, which is then the one that was used last.
func (c *kept) use(e *entry) *Rendered {
	if e.taken != c.puts {
		e.taken = c.puts
		c.order.MoveToFront(e.at)
	}
	return e.rendered
}

// unchanged gives, for a host whose revision is the one that it was noted with, the
// config that its rendering makes of the template; the rendering where it has no
// artifact.
func (c *kept) unchanged(who owner, by pair, source string) (*Rendered, *snapshot.Config) {
	g := c.asked[by]
	if g == nil {
		if g = c.hosts[who]; g == nil || g.revision != by.host.Revision {
			return nil, nil
		}
		c.ask(g, by)
	}
	if g.now == nil || g.source != source {
		return nil, nil
	}
	if g.config != nil && g.taken == c.puts {
		return nil, g.config
	}
	r := c.use(g.now)
	g.taken = c.puts
	if g.config == nil && r.Artifact != nil {
		g.config = with(by.config, r, false)
		g.source = source // the same letters in the same place, which is soon seen
	}
	return r, g.config
}

// note notes that a rendering is that of a host as it is.
func (c *kept) note(who owner, by pair, k key) {
	e := c.entries[k]
	if e == nil {
		return
	}
	g := c.hosts[who]
	if entry := e.Value.(*entry); g != nil && entry.who == who {
		g.now, g.source, g.revision = entry, entry.key.source, by.host.Revision
		c.ask(g, by)
	}
}

func (c *kept) ask(g *given, by pair) {
	delete(c.asked, g.pair)
	g.pair, g.config = by, nil
	c.asked[by] = g
}

// put keeps a rendering, and gives it with bytes that it shares with its equals.
func (c *kept) put(k key, who owner, r *Rendered) *Rendered {
	if e := c.entries[k]; e != nil {
		return e.Value.(*entry).rendered
	}
	e := &entry{key: k, who: who, rendered: r}
	if r.Artifact != nil {
		b := c.bodies[r.Hash]
		if b == nil {
			b = &body{bytes: r.Artifact}
			c.bodies[r.Hash] = b
			c.size += len(b.bytes)
		}
		b.used++
		r.Artifact = b.bytes
	}
	if who != (owner{}) {
		g := c.hosts[who]
		if g == nil {
			g = &given{}
			c.hosts[who] = g
		}
		g.outdate()
		if r.Artifact != nil {
			g.good = e
		}
	}
	c.size += r.cost()
	c.puts++
	e.at, e.taken = c.order.PushFront(e), c.puts
	c.entries[k] = e.at
	for c.size > c.limit && c.order.Len() > 1 {
		c.drop(c.order.Back())
	}
	return r
}

func (c *kept) drop(at *list.Element) {
	e := c.order.Remove(at).(*entry)
	delete(c.entries, e.key)
	if g := c.hosts[e.who]; g != nil {
		if g.good == e {
			g.good = nil
		}
		if g.now == e {
			g.outdate()
		}
		if g.good == nil && g.now == nil {
			delete(c.hosts, e.who)
			delete(c.asked, g.pair)
		}
	}
	c.size -= e.rendered.cost()
	if b := c.bodies[e.rendered.Hash]; b != nil && e.rendered.Artifact != nil {
		if b.used--; b.used == 0 {
			c.size -= len(b.bytes)
			delete(c.bodies, e.rendered.Hash)
		}
	}
}

// cost is what a rendering takes without its body.
func (r *Rendered) cost() int {
	cost := entryCost + len(r.Message)
	if r.stack != nil {
		cost += len(r.stack.Own)
	}
	for _, w := range r.Warnings {
		cost += len(w)
	}
	return cost
}

// parsed are templates, within a bound of their sources. Its owner holds a lock.
type parsed struct {
	size  int
	made  map[string]*compile.Template
	sizes map[string]int
	order []string // as they came
}

func (p *parsed) find(k string) *compile.Template { return p.made[k] }

func (p *parsed) put(k string, t *compile.Template, size int) {
	if p.made == nil {
		p.made, p.sizes = map[string]*compile.Template{}, map[string]int{}
	}
	if p.made[k] != nil {
		return
	}
	p.made[k], p.sizes[k] = t, size
	p.order = append(p.order, k)
	for p.size += size; p.size > maxParsed && len(p.order) > 1; p.order = p.order[1:] {
		old := p.order[0]
		p.size -= p.sizes[old]
		delete(p.made, old)
		delete(p.sizes, old)
	}
}
