package live

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"
)

const (
	// heartbeat is how often a stream says that it is there, so that a page notices a dead connection.
	heartbeat = 10 * time.Second
	// writeTimeout ends the stream of a client that does not read.
	writeTimeout = 10 * time.Second
	// allowedFor is how long an answer of the policy holds for a stream.
	allowedFor = time.Second
)

// Serve answers with the frames after a position until ctx ends, as Server-Sent Events. may says whether the user may
// list a resource in a namespace, which is "" for a resource of the whole cluster.
func (h *Hub) Serve(
	ctx context.Context, w http.ResponseWriter, from string, may func(resource, namespace string) bool,
) {
	isStorm := h.open()
	defer h.close()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	s := &stream{out: w, control: http.NewResponseController(w), may: may}
	position, ok := h.sequenceOf(from)
	if !ok {
		position = math.MaxUint64
	}
	s.write(fmt.Appendf(nil, "retry: 1000\nevent: hello\ndata: {\"at\":%q,\"storm\":%t}\n\n", h.At(), isStorm))
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for s.err == nil {
		frames, newest, more, ok := h.after(position)
		if !ok {
			s.write(fmt.Appendf(nil, "id: %s\nevent: reset\ndata: {}\n\n", h.id(newest)))
		}
		s.send(frames)
		position = newest
		s.flush()
		select {
		case <-ctx.Done():
			return
		case <-more:
		case <-beat.C:
			s.write([]byte(": \n\n"))
		}
	}
}

func (h *Hub) open() (isStorm bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams++
	return h.isStorm
}

func (h *Hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams--
}

// stream is the answer to one page, or to all pages of one browser.
type stream struct {
	out     http.ResponseWriter
	control *http.ResponseController
	may     func(resource, namespace string) bool
	allowed map[place]bool
	asked   time.Time // when allowed was emptied
	err     error
}

// send writes the frames that the user may see.
func (s *stream) send(frames []frame) {
	if now := time.Now(); now.Sub(s.asked) > allowedFor {
		s.allowed, s.asked = map[place]bool{}, now
	}
	for _, f := range frames {
		if s.isAllowed(f) {
			s.write(f.text)
		}
	}
}

func (s *stream) isAllowed(f frame) bool {
	if f.resource == "" {
		return true
	}
	at := place{f.resource, f.namespace}
	may, isKnown := s.allowed[at]
	if !isKnown {
		may = s.may(at.resource, at.namespace)
		s.allowed[at] = may
	}
	return may
}

func (s *stream) write(text []byte) {
	if s.err != nil {
		return
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // a writer without deadlines is one of a test
	_, s.err = s.out.Write(text)
}

// flush sends what was written, and lifts the deadline: one that passes while nothing is written ends the stream.
func (s *stream) flush() {
	if s.err == nil {
		s.err = s.control.Flush()
	}
	_ = s.control.SetWriteDeadline(time.Time{})
}
