package bootlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what is to come in a moment.
const patience = 10 * time.Second

// remembered remembers in memory.
type remembered struct{ has bool }

func (l *remembered) Has(string) bool  { return l.has }
func (l *remembered) Add(string) error { l.has = true; return nil }

// rig is a running log and what it has handed on.
type rig struct {
	*Log
	stop func()
	mu   sync.Mutex
	got  []Batch
}

func run(t *testing.T, js jetstream.JetStream, opts Options) *rig {
	t.Helper()
	r := &rig{}
	opts.Taken = func(b Batch) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, b)
	}
	r.Log = New(opts)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, js) })
	r.stop = func() { cancel(); running.Wait() }
	t.Cleanup(r.stop)
	return r
}

func (r *rig) ready(t *testing.T) *rig {
	t.Helper()
	testkit.Until(t, "the log is ready", func() bool { return r.Loaded() && r.ReadinessCheck() == nil })
	return r
}

// taken returns what was handed on, a line a record.
func (r *rig) taken() (lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.got {
		for _, rec := range b.Records {
			lines = append(lines, fmt.Sprintf("%s %s at %d", rec.Host.Name, rec.Progress.State, rec.Progress.Position))
		}
	}
	return lines
}

func (r *rig) last() Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[len(r.got)-1]
}

func record(name, state string, after uint64) Record {
	return Record{
		Host: model.Ref{Namespace: "g10", Name: name}, UID: "uid-" + name, After: after,
		Progress: model.Progress{State: state, Seen: time.Unix(1_800_000_000, 7).UTC(), Boots: 1},
	}
}

func (r *rig) append(t *testing.T, records ...Record) {
	t.Helper()
	if err := r.Append(t.Context(), records); err != nil {
		t.Fatal(err)
	}
}

// TestWindowsAreLogged: the use of a provisioning window is read at the next start, and one of a message
// of which only some records have any.
func TestWindowsAreLogged(t *testing.T) {
	js := kvtest.JetStream(t)
	limited := record("limited", v1.StateProvisioned, 0)
	limited.Progress.Window = &model.Window{Opened: time.Unix(1_800_000_000, 0).UTC(), Fetches: 2}
	first := run(t, js, Options{Exclusive: true}).ready(t)
	first.append(t, record("free", v1.StateBooting, 0), limited)
	first.stop()
	again := run(t, js, Options{Exclusive: true}).ready(t)
	records := again.last().Records
	if len(records) != 2 || records[0].Progress.Window != nil || records[1].Progress.Window == nil ||
		records[1].Progress.Window.Fetches != 2 {
		t.Errorf("%+v", records)
	}
}

// TestRestartReadsAll: what was appended is read at the next start, in order and at
// the same positions.
func TestRestartReadsAll(t *testing.T) {
	js := kvtest.JetStream(t)
	a := run(t, js, Options{Exclusive: true}).ready(t)
	a.append(t, record("a", v1.StateBooting, 0), record("b", v1.StateBooting, 0))
	a.append(t, record("a", v1.StateProvisioned, 1))
	want := []string{"a Booting at 1", "b Booting at 1", "a Provisioned at 2"}
	if got := a.taken(); !slices.Equal(got, want) {
		t.Errorf("written: %q", got)
	}
	a.stop()
	if err := a.Append(t.Context(), []Record{record("a", v1.StateBooting, 2)}); err == nil {
		t.Error("a record is taken after the end")
	}
	b := run(t, js, Options{Exclusive: true}).ready(t)
	if got := b.taken(); !slices.Equal(got, want) {
		t.Errorf("read: %q", got)
	}
	if got := b.last(); got.Own || got.Live || got.Sequence != 2 {
		t.Errorf("%+v", got)
	}
	b.append(t, record("a", v1.StateBooting, 2))
	if got := b.taken()[3]; got != "a Booting at 3" {
		t.Errorf("after the start: %s", got)
	}
}

// TestOtherServersFollow: what one server appends the other is given in a moment,
// and both in one order.
func TestOtherServersFollow(t *testing.T) {
	js := kvtest.JetStream(t)
	a, b := run(t, js, Options{}).ready(t), run(t, js, Options{}).ready(t)
	for i := range 20 {
		a.append(t, record(fmt.Sprintf("a%d", i), v1.StateBooting, 0))
		b.append(t, record(fmt.Sprintf("b%d", i), v1.StateBooting, 0))
	}
	testkit.Until(t, "both have all", func() bool { return len(a.taken()) == 40 && len(b.taken()) == 40 })
	if diff := cmp.Diff(a.taken(), b.taken()); diff != "" {
		t.Error(diff)
	}
	if got := b.last(); !got.Own || !got.Live {
		t.Errorf("%+v", got)
	}
	if got := a.last(); got.Own || !got.Live {
		t.Errorf("%+v", got)
	}
}

// TestLargeAppend is more than one message holds.
func TestLargeAppend(t *testing.T) {
	js := kvtest.JetStream(t)
	a := run(t, js, Options{Exclusive: true}).ready(t)
	var records []Record
	for i := range 6000 {
		records = append(records, record(fmt.Sprintf("host-%d-%s", i, strings.Repeat("x", 100)), v1.StateBooting, 0))
	}
	a.append(t, records...)
	if got := len(a.taken()); got != len(records) || a.last().Sequence < 3 {
		t.Errorf("%d records in %d messages", got, a.last().Sequence)
	}
}

// TestTrim: what is trimmed is not read again, and what comes later has a higher
// position, also where the whole log was trimmed.
func TestTrim(t *testing.T) {
	js := kvtest.JetStream(t)
	a := run(t, js, Options{Exclusive: true}).ready(t)
	for i := range 3 {
		a.append(t, record(fmt.Sprint(i), v1.StateBooting, 0))
	}
	if err := a.Trim(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	b := run(t, js, Options{Exclusive: true}).ready(t)
	if got := b.taken(); !slices.Equal(got, []string{"2 Booting at 3"}) {
		t.Errorf("%q", got)
	}
	if err := b.Trim(t.Context(), 100); err != nil { // more than it has read
		t.Fatal(err)
	}
	c := run(t, js, Options{Exclusive: true}).ready(t)
	c.append(t, record("new", v1.StateBooting, 3))
	if got := c.taken(); !slices.Equal(got, []string{"new Booting at 4"}) {
		t.Errorf("%q", got)
	}
}

// TestPositionsRise: the status of a host tells of a log that went further than this
// one, which was created again or restored. New messages are newer all the same.
func TestPositionsRise(t *testing.T) {
	js := kvtest.JetStream(t)
	a := run(t, js, Options{}).ready(t)
	a.append(t, record("a", v1.StateBooting, 0))
	a.append(t, record("restored", v1.StateBooting, 700), record("b", v1.StateBooting, 0))
	a.append(t, record("restored", v1.StateProvisioned, 701))
	want := []string{"a Booting at 1", "restored Booting at 701", "b Booting at 701", "restored Provisioned at 702"}
	testkit.Until(t, "all came", func() bool { return len(a.taken()) == len(want) })
	if got := a.taken(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	b := run(t, js, Options{}).ready(t)
	b.append(t, record("c", v1.StateBooting, 0))
	want = append(want, "c Booting at 703")
	testkit.Until(t, "all came", func() bool { return len(b.taken()) == len(want) })
	if got := b.taken(); !slices.Equal(got, want) {
		t.Errorf("after a restart: %q", got)
	}
}

// TestLostLogIsNotReplaced: a log that existed and is missing is never created again.
func TestLostLogIsNotReplaced(t *testing.T) {
	js := kvtest.JetStream(t)
	known := &remembered{}
	a := run(t, js, Options{Exclusive: true, Ledger: known}).ready(t)
	a.append(t, record("a", v1.StateBooting, 0))
	a.stop()
	if err := js.DeleteStream(t.Context(), Stream); err != nil {
		t.Fatal(err)
	}
	b := run(t, js, Options{Exclusive: true, Ledger: known})
	testkit.Until(t, "the loss is reported", func() bool { return errors.Is(b.ReadinessCheck(), errLost) })
	if err := b.Append(t.Context(), []Record{record("a", v1.StateBooting, 0)}); !errors.Is(err, errLost) || b.Loaded() {
		t.Errorf("Append: %v, loaded %v", err, b.Loaded())
	}
	if _, err := js.Stream(t.Context(), Stream); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the stream: %v", err)
	}
}

// TestNoRoom: a full disk is told at once, and ends.
func TestNoRoom(t *testing.T) {
	full := errors.New("the disk is full")
	a := run(t, kvtest.JetStream(t), Options{Exclusive: true, Room: func(int) error { return full }}).ready(t)
	if err := a.Append(t.Context(), []Record{record("a", v1.StateBooting, 0)}); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	full = nil
	a.append(t, record("a", v1.StateBooting, 0))
}

// TestNotWritable: a log that must not be written refuses a record at once, and is not trimmed.
func TestNotWritable(t *testing.T) {
	no := error(nil)
	a := run(t, kvtest.JetStream(t), Options{Exclusive: true, Writable: func() error { return no }}).ready(t)
	a.append(t, record("a", v1.StateBooting, 0))
	no = errors.New("the file system is read-only")
	if err := a.Append(t.Context(), []Record{record("a", v1.StateBooting, 0)}); !errors.Is(err, no) {
		t.Errorf("Append: %v", err)
	}
	if err := a.Trim(t.Context(), 1); !errors.Is(err, no) {
		t.Errorf("Trim: %v", err)
	}
	no = nil
	a.append(t, record("a", v1.StateBooting, 0))
}

// TestStoreAway: while the server is away a record is refused at once.
func TestStoreAway(t *testing.T) {
	js := kvtest.JetStream(t)
	a := run(t, js, Options{Exclusive: true}).ready(t)
	js.Conn().Close()
	testkit.Until(t, "the loss is noticed", func() bool { return a.ReadinessCheck() != nil })
	began := time.Now()
	if err := a.Append(t.Context(), []Record{record("a", v1.StateBooting, 0)}); err == nil ||
		time.Since(began) > time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	if !a.Loaded() {
		t.Error("what was read is forgotten")
	}
}

// TestMissingMessagesAreReported: a hole that nothing has trimmed is a loss.
func TestMissingMessagesAreReported(t *testing.T) {
	js := kvtest.JetStream(t)
	a := run(t, js, Options{Exclusive: true}).ready(t)
	for i := range 5 {
		a.append(t, record(fmt.Sprint(i), v1.StateBooting, 0))
	}
	stream, err := js.Stream(t.Context(), Stream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	for _, floor := range []uint64{0, 1, 3} {
		l := New(Options{Taken: func(Batch) {}})
		for _, sequence := range []uint64{1, 4, 5} { // 2 and 3 did not come
			l.received(sequence, appendHeader(nil, header{floor: floor}), false)
		}
		l.setLoaded(5)
		if got, want := value(t, l), float64(3-max(floor, 1)); got != want {
			t.Errorf("with all up to %d trimmed, %v are lost; want %v", floor, got, want)
		}
	}
	if !cfg.DenyDelete {
		t.Error("single messages can be removed, which looks like a loss")
	}
}
