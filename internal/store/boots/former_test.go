package boots

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/boots/bootstest"
	"glowplug/internal/store/kvstore/kvtest"
)

// appendFormer writes a record as former releases did.
func appendFormer(b []byte, r *formerRecord) []byte {
	p := &r.Progress
	for _, s := range [...]string{r.Host.Namespace, r.Host.Name, r.UID, p.State, p.Rearmed, r.Config.Namespace,
		r.Config.Name, r.Hash} {
		b = appendText(b, s)
	}
	b = appendTimes(b, p.Seen, p.Script, p.Boot)
	b = binary.AppendUvarint(binary.AppendVarint(b, p.Boots), r.after)
	w := p.Window
	if w == nil {
		return append(b, 0)
	}
	b = appendTimes(append(b, 1), w.Opened, w.Closed, w.Token)
	b = appendText(binary.AppendVarint(binary.AppendVarint(b, w.Fetches), w.Boot), w.First.String())
	b = binary.AppendUvarint(b, uint64(len(w.Clients)))
	for _, client := range w.Clients {
		b = appendText(b, client.String())
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTimes(b []byte, times ...time.Time) []byte {
	for _, t := range times {
		nanoseconds := int64(0)
		if !t.IsZero() {
			nanoseconds = t.UnixNano()
		}
		b = binary.AppendVarint(b, nanoseconds)
	}
	return b
}

// formerBase is what the former release has added to the sequence of a message to make the position of its records.
const formerBase = 40

// publishFormer makes the boot log of a former release, with messages.
func publishFormer(t *testing.T, js jetstream.JetStream, messages ...[]formerRecord) jetstream.Stream {
	t.Helper()
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: FormerStream, Subjects: []string{"GLOWPLUG.bootstates.*"}, Discard: jetstream.DiscardNew, DenyDelete: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, records := range messages {
		b := binary.AppendUvarint([]byte{windowVersion}, formerBase)
		b = binary.AppendUvarint(b, 0)
		for i := range records {
			b = appendFormer(b, &records[i])
		}
		if len(records) == 0 {
			b = []byte("damaged")
		}
		if _, err := js.Publish(t.Context(), "GLOWPLUG.bootstates.here", b); err != nil {
			t.Fatal(err)
		}
	}
	return stream
}

// TestFormerBootLog: the states in the boot log of a former release that the statuses of their hosts lack are taken
// over, and the log is empty once they are stored.
func TestFormerBootLog(t *testing.T) {
	js := kvtest.JetStream(t)
	at := func(minute int) time.Time { return epoch.Add(time.Duration(minute) * time.Minute) }
	hosts := map[model.Ref]*model.Host{}
	// known adds a host whose status has a state up to a position.
	known := func(name, state string, position uint64, minute int) {
		h := newHost(name)
		h.Progress = model.Progress{State: state, Boots: 4, Position: position, Seen: at(minute), Boot: at(0)}
		hosts[h.Ref] = h
	}
	record := func(name, state string, boots int64, after uint64, minute int) formerRecord {
		r := formerRecord{Boot: model.Boot{Host: newHost(name).Ref, UID: "uid-" + name, Config: config, Hash: hash},
			after: after}
		r.Progress = model.Progress{State: state, Boots: boots, Rearmed: "2026-11-20", Seen: at(minute), Script: at(1), Boot: at(1)}
		return r
	}
	known("newer", v1.StateBooting, 0, 1)
	known("included", v1.StateAvailable, formerBase+1, 1)
	known("elsewhere", v1.StateProvisioned, formerBase-1, 9)
	known("replaced", v1.StateAvailable, 0, 1)
	known("booted", v1.StateAvailable, 0, 1)
	window := record("newer", v1.StateProvisioned, 6, formerBase+1, 5)
	window.Progress.Window = &model.Window{Opened: at(2), Closed: at(3), Fetches: 2, Boot: 6,
		First: netip.MustParseAddr("192.0.2.1"), Clients: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
	other := record("replaced", v1.StateProvisioned, 5, 0, 5)
	other.UID = "its predecessor"
	stream := publishFormer(t, js,
		[]formerRecord{record("newer", v1.StateProvisioning, 5, 0, 2), record("included", v1.StateBooting, 5, 0, 5),
			record("gone", v1.StateProvisioned, 5, 0, 5)},
		nil,
		[]formerRecord{record("elsewhere", v1.StateBooting, 5, formerBase-2, 5), other, record("booted", v1.StateBooting, 5, 0, 5)},
		[]formerRecord{window},
	)
	bucket := bootstest.New()
	theirs := boot("g10", "booted", 7)
	theirs.HostUID, theirs.Machine.State = "uid-booted", v1.StateProvisioned
	bucket.PutForeign(theirs)
	find := func(ref model.Ref) *model.Host { return hosts[ref] }

	r := rigOver(t, bucket, true)
	empty, err := r.TakeFormer(t.Context(), js, find)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"newer": v1.StateProvisioned, "included": v1.StateAvailable, "elsewhere": v1.StateProvisioned,
		"replaced": v1.StateAvailable, "booted": v1.StateProvisioned,
	} {
		if got := r.Progress(hosts[newHost(name).Ref]).State; got != want {
			t.Errorf("%s is %s; want %s", name, got, want)
		}
	}
	if err := empty(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := stream.Info(t.Context()); err != nil || info.State.Msgs != 0 {
		t.Errorf("the log has %d messages: %v", info.State.Msgs, err)
	}
	r.wantLog(t, "stored g10/booted.7", "stored g10/newer.6")
	again := rigOver(t, bucket, true)
	machine, _ := again.BeginWrite(newHost("newer").Ref)
	window.Number = 6
	if diff := cmp.Diff(window.Boot, machine.Boot, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if empty, err = again.TakeFormer(t.Context(), js, find); err != nil {
		t.Fatal(err)
	}
	if err := empty(t.Context()); err != nil {
		t.Fatal(err)
	}
	again.wantState(t, hosts[newHost("newer").Ref], v1.StateProvisioned, 6)
	again.wantLog(t, "stored g10/booted.7", "stored g10/newer.6")
}

// TestFormerBootLogIsTakenWhole: the last state of each host counts, also where the server ends in between.
func TestFormerBootLogIsTakenWhole(t *testing.T) {
	js := kvtest.JetStream(t)
	messages := [][]formerRecord{}
	hosts := map[model.Ref]*model.Host{}
	for i := range 300 {
		h := newHost("server1")
		hosts[h.Ref] = h
		r := formerRecord{Boot: model.Boot{Host: h.Ref, UID: h.UID}, after: uint64(i)}
		seen := epoch.Add(time.Duration(i) * time.Second)
		r.Progress = model.Progress{State: v1.StateBooting, Boots: int64(i + 1), Seen: seen}
		messages = append(messages, []formerRecord{r})
	}
	publishFormer(t, js, messages...)
	r := rigOver(t, bootstest.New(), true) // it stores while the log is read
	empty, err := r.TakeFormer(t.Context(), js, func(ref model.Ref) *model.Host { return hosts[ref] })
	if err != nil {
		t.Fatal(err)
	}
	if err := empty(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.wantState(t, newHost("server1"), v1.StateBooting, 300)
	r.wantLog(t, "stored g10/server1.300")
}
