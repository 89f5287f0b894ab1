// Package live tells open pages of the console what has changed: the states of hosts themselves, and the names of all
// other objects, which a page then reads again as its user. A change is encoded once, whatever the number of pages.
package live

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/snapshot"
)

const (
	// calmTick is the pause between two frames, and stormTick the one while many machines boot: frames cost the
	// processor time that the machines need.
	calmTick  = 100 * time.Millisecond
	stormTick = 1200 * time.Millisecond
	// maxFrames and maxFrameBytes bound the frames that are kept for pages that are behind.
	maxFrames     = 2048
	maxFrameBytes = 4 << 20
	// maxNames is how many names of one resource and namespace a frame has; beyond it has none, which means all.
	maxNames = 20
	// maxWrites is how many writes are remembered.
	maxWrites = 200
)

// Options are the parts of a Hub.
type Options struct {
	// Inventory has the hosts.
	Inventory *snapshot.Inventory
	// Progress returns the newest state of a host.
	Progress func(*model.Host) model.Progress
	// Storm reports whether many machines boot.
	Storm func() bool
}

// Write is a write of an object by a user of this server.
type Write struct {
	Resource string
	model.Ref
	Verb, User string
	At         time.Time
}

// frame is what all pages are told of one resource in one namespace, in the format of an event stream.
type frame struct {
	sequence            uint64
	resource, namespace string
	text                []byte
}

// place is a namespace of a resource.
type place struct{ resource, namespace string }

// Hub collects changes, and hands them to the streams of pages. It is safe for concurrent use; nobody waits for a page.
type Hub struct {
	opts Options
	// epoch tells the frames of this process from those of the one before.
	epoch string
	wake  chan struct{} // holds one: something has changed

	// sent has the last cell of each host that pages were told since one was opened. Run alone uses it.
	sent map[model.Ref]string

	mu      sync.Mutex
	changed map[place]map[string]struct{} // nil: any name
	frames  []frame
	bytes   int
	// sequence is that of the newest frame, and floor the one after which all frames are kept.
	sequence, floor uint64
	streams         int
	isStorm         bool
	news            chan struct{} // closed when there are new frames
	writes          []Write       // the oldest first
}

// New returns a Hub, which sends nothing before Run.
func New(opts Options) *Hub {
	return &Hub{
		opts: opts, epoch: rand.Text()[:10], wake: make(chan struct{}, 1), changed: map[place]map[string]struct{}{},
		news: make(chan struct{}), sent: map[model.Ref]string{},
	}
}

// Storm reports whether many machines boot.
func (h *Hub) Storm() bool { return h.opts.Storm() }

// Mark notes that an object has changed; an empty name means all of the namespace.
func (h *Hub) Mark(resource string, ref model.Ref) {
	at := place{resource, ref.Namespace}
	h.mu.Lock()
	names, isMarked := h.changed[at]
	switch {
	case isMarked && names == nil:
	case ref.Name == "" || resource != kinds.BareMetalHosts && len(names) >= maxNames:
		h.changed[at] = nil
	case names == nil:
		h.changed[at] = map[string]struct{}{ref.Name: {}}
	default:
		names[ref.Name] = struct{}{}
	}
	h.mu.Unlock()
	if !isMarked {
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
}

// Wrote notes that a user has written an object.
func (h *Hub) Wrote(w Write) {
	h.mu.Lock()
	if len(h.writes) >= maxWrites {
		h.writes = append(h.writes[:0], h.writes[1:]...)
	}
	h.writes = append(h.writes, w)
	h.mu.Unlock()
}

// Writes returns the newest writes of this server since its start, the newest first.
func (h *Hub) Writes() []Write {
	h.mu.Lock()
	defer h.mu.Unlock()
	writes := make([]Write, 0, len(h.writes))
	for i := len(h.writes) - 1; i >= 0; i-- {
		writes = append(writes, h.writes[i])
	}
	return writes
}

// Run follows the inventory and makes frames until ctx ends, which also ends all streams.
func (h *Hub) Run(ctx context.Context) {
	wait := h.opts.Inventory.Subscribe().Follow(ctx, h.take)
	defer wait()
	isStorm := false
	for {
		var end <-chan time.Time // of a storm, which pages are told although nothing else changes
		if isStorm {
			end = time.After(stormTick)
		}
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		case <-end:
		}
		pause := calmTick
		if isStorm = h.opts.Storm(); isStorm {
			pause = stormTick
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		h.publish(isStorm)
	}
}

// take marks what a change of the inventory is about.
func (h *Hub) take(c snapshot.Change) {
	if host := cmp.Or(c.Host, c.OldHost); host != nil {
		h.Mark(kinds.BareMetalHosts, host.Ref)
	}
	if config := cmp.Or(c.Config, c.OldConfig); config != nil {
		h.Mark(kinds.IgnitionConfigs, config.Ref)
	}
	if image := cmp.Or(c.Image, c.OldImage); image != nil {
		h.Mark(kinds.ISCSICdroms, image.Ref)
	}
	if c.Reload {
		h.reset()
	}
}

// reset has all pages read everything again.
func (h *Hub) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sequence++
	h.forgetLocked()
	h.tellLocked()
}

func (h *Hub) forgetLocked() {
	h.frames, h.bytes, h.floor = nil, 0, h.sequence
}

func (h *Hub) tellLocked() {
	close(h.news)
	h.news = make(chan struct{})
}

// publish makes frames of what has changed. Without a stream nothing is encoded: a page that opens one reads all.
func (h *Hub) publish(isStorm bool) {
	h.mu.Lock()
	changed := h.changed
	h.changed = make(map[place]map[string]struct{}, len(changed))
	idle := h.streams == 0
	if idle {
		h.isStorm = isStorm
		h.sequence++
		h.forgetLocked()
	}
	h.mu.Unlock()
	if idle {
		clear(h.sent)
		return
	}
	view, frames := h.opts.Inventory.View(), make([]frame, 0, len(changed))
	for at, names := range changed {
		var data []byte
		if at.resource == kinds.BareMetalHosts && names != nil {
			data = h.cells(view, at.namespace, names, isStorm)
		} else {
			data = namesOf(names)
		}
		if data == nil {
			continue
		}
		frames = append(frames, frame{resource: at.resource, namespace: at.namespace, text: data})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(frames) == 0 && h.isStorm == isStorm {
		return
	}
	if h.isStorm != isStorm {
		h.isStorm = isStorm
		h.addLocked(frame{text: []byte(`{"storm":` + strconv.FormatBool(isStorm) + `}`)})
	}
	for _, f := range frames {
		h.addLocked(f)
	}
	h.tellLocked()
}

// addLocked numbers and encodes a frame, and drops the oldest ones.
func (h *Hub) addLocked(f frame) {
	h.sequence++
	f.sequence = h.sequence
	event := f.resource
	if event == "" {
		event = "hub"
	}
	f.text = fmt.Appendf(nil, "id: %s\nevent: %s\ndata: {\"ns\":%s,\"of\":%s}\n\n", h.id(f.sequence), event,
		encoded(f.namespace), f.text)
	h.frames = append(h.frames, f)
	h.bytes += len(f.text)
	drop := 0
	for len(h.frames)-drop > maxFrames || h.bytes > maxFrameBytes && drop < len(h.frames) {
		h.bytes -= len(h.frames[drop].text)
		h.floor = h.frames[drop].sequence
		drop++
	}
	h.frames = h.frames[drop:] // streams may still read the others
}

// id is the position after a frame.
func (h *Hub) id(sequence uint64) string { return h.epoch + "-" + strconv.FormatUint(sequence, 10) }

// At returns the position now: a page that is made after it has all changes up to it.
func (h *Hub) At() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.id(h.sequence)
}

// after returns the frames after a position, the newest position, and a channel that is closed when there are more.
// ok is false where they are not kept any more.
func (h *Hub) after(sequence uint64) (frames []frame, newest uint64, more <-chan struct{}, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if sequence < h.floor || sequence > h.sequence {
		return nil, h.sequence, h.news, false
	}
	for i := len(h.frames); i > 0; i-- {
		if h.frames[i-1].sequence <= sequence {
			return h.frames[i:], h.sequence, h.news, true
		}
	}
	return h.frames, h.sequence, h.news, true
}

// sequenceOf reads a position; ok is false for one of another process.
func (h *Hub) sequenceOf(id string) (sequence uint64, ok bool) {
	epoch, number, found := strings.Cut(id, "-")
	sequence, err := strconv.ParseUint(number, 10, 64)
	return sequence, found && err == nil && epoch == h.epoch
}

// states has the letter of each state in a frame.
var states = map[string]string{
	v1.StateAvailable: "a", v1.StateBooting: "b", v1.StateProvisioning: "p", v1.StateProvisioned: "d", v1.StateError: "e",
}
