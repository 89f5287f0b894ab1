package cluster

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// never is the end of a call with an unknown outcome.
const never = math.MaxInt64

// checkTimeout bounds a search for an order. The histories of these rounds take
// milliseconds.
const checkTimeout = 20 * time.Second

// history is what the clients asked and were told.
type history struct {
	mu         sync.Mutex
	began      time.Time
	operations []porcupine.Operation
	counts     map[string]int
}

func newHistory() *history { return &history{began: time.Now(), counts: map[string]int{}} }

func (h *history) now() int64 { return int64(time.Since(h.began)) }

// add records a call that ended now.
func (h *history) add(client int, from int64, c call, a answer) {
	o := porcupine.Operation{ClientId: client, Input: c, Call: from, Output: a, Return: h.now()}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[c.operation.String()+" "+a.outcome.String()]++
	if a.outcome == unknown {
		if c.operation == read {
			return // it says nothing
		}
		o.Return = never
	}
	h.operations = append(h.operations, o)
}

// count notes a call that said nothing about the object.
func (h *history) count(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[what]++
}

func (h *history) summary() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprint(h.counts)
}

// check searches for an order of the calls, object by object. Each object without
// one is written to a file that a browser shows.
func (h *history) check(t *testing.T, dir string) {
	t.Helper()
	h.mu.Lock()
	parts := byObject(h.operations)
	h.mu.Unlock()
	bad := map[string]int{} // by round
	for _, part := range parts {
		result, info := search(part)
		if result == porcupine.Ok {
			continue
		}
		object := part[0].Input.(call).object
		round, _, _ := strings.Cut(object, "-")
		bad[round]++
		path := filepath.Join(dir, object)
		if err := porcupine.VisualizePath(model, info, path+".html"); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(path+".txt", []byte(listing(part)), 0o644); err != nil {
			t.Error(err)
		}
		if bad[round] == 1 {
			t.Log(listing(part))
			t.Errorf("%s: no single copy could have answered so (%s): see %s.html and %s.txt", object, result, path, path)
		}
	}
	if len(bad) > 0 {
		t.Errorf("objects that are not linearizable, of %d, by round: %v", len(parts), bad)
	}
}

// search looks for an order of the calls on one object. What is unknown may never
// have happened: an order without it is one. Each such call doubles the search, so
// those whose effect no client saw are added only if the others do not suffice.
func search(part []porcupine.Operation) (result porcupine.CheckResult, info porcupine.LinearizationInfo) {
	seen := map[string]bool{}
	for _, o := range part {
		seen[o.Output.(answer).value] = true
	}
	for _, with := range []func(call) bool{
		func(c call) bool { return c.value != "" && seen[c.value] },
		func(c call) bool { return c.operation == remove || seen[c.value] },
		func(call) bool { return true },
	} {
		var some []porcupine.Operation
		for _, o := range part {
			if o.Return != never || with(o.Input.(call)) {
				some = append(some, o)
			}
		}
		if result, info = porcupine.CheckOperationsVerbose(model, some, checkTimeout); result == porcupine.Ok {
			break
		}
	}
	return result, info
}

// refused finds the writes that were answered 409 or 404 although their value was
// read, or seen by a watch. They are not linearizable either, if it was read; this
// names the reason.
func (h *history) refused(t *testing.T, watchers []*watcher) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	stored := map[string]bool{}
	for _, o := range h.operations {
		stored[o.Input.(call).object+" "+o.Output.(answer).value] = true
	}
	for _, w := range watchers {
		maps.Copy(stored, w.values)
	}
	for _, o := range h.operations {
		c, a := o.Input.(call), o.Output.(answer)
		if c.value != "" && (a.outcome == conflict || a.outcome == missing) && stored[c.object+" "+c.value] {
			t.Errorf("%s was written although the writer was refused: %s at %.3f s", c.object, describe(c, a),
				float64(o.Call)/1e9)
		}
	}
}

// listing is an object's calls, one a line, in the order in which they began.
func listing(part []porcupine.Operation) string {
	var text []byte
	for _, o := range part {
		end := "      never"
		if o.Return != never {
			end = fmt.Sprintf("%11.3f", float64(o.Return)/1e9)
		}
		text = fmt.Appendf(text, "%11.3f %s client %2d %s\n", float64(o.Call)/1e9, end, o.ClientId, describe(o.Input.(call),
			o.Output.(answer)))
	}
	return string(text)
}
