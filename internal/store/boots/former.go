package boots

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/util/wait"

	"glowplug/internal/domain/model"
	"glowplug/internal/store/ledger"
	"glowplug/internal/store/question"
)

// FormerStream is the boot log of former releases: the states of machines that the statuses of their hosts may lack.
// It stays, empty, since the records of a store name it.
const FormerStream = ledger.StreamPrefix + "BOOTSTATES"

// FormerConfig returns the configuration of the stream.
func FormerConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: FormerStream, Subjects: []string{"GLOWPLUG.bootstates.*"}, Storage: jetstream.FileStorage,
		Discard: jetstream.DiscardNew, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1, DenyDelete: true,
	}
}

const (
	formerTimeout = 30 * time.Second
	formerPause   = 100 * time.Millisecond
)

// formerRecord is a state in the boot log.
type formerRecord struct {
	model.Boot
	// after is the position of the newest record of the host that its writer knew.
	after uint64
}

// TakeFormer takes over the states in the boot log of a former release, if there is one. host returns a host, or nil.
// empty then removes them, once they are stored.
func (t *Tracker) TakeFormer(ctx context.Context, js jetstream.JetStream, host func(model.Ref) *model.Host) (
	empty func(context.Context) error, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, formerTimeout)
	defer cancel()
	stream, err := question.Ask(ctx, func(ctx context.Context) (jetstream.Stream, error) {
		return js.Stream(ctx, FormerStream)
	})
	nothing := func(context.Context) error { return nil }
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nothing, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the boot log of a former release: %w", err)
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 {
		return nothing, nil
	}
	var all []formerRecord
	for sequence := state.FirstSeq; sequence <= state.LastSeq; sequence++ {
		message, err := stream.GetMsg(ctx, sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			t.opts.Logger.Error("a message of the boot log of a former release is missing: the state of machines that "+
				"booted last may be older than it was. Look at hosts whose status.state is not Provisioned although they are, "+
				"and set it", "sequence", sequence)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the boot log of a former release: %w", err)
		}
		records, err := readFormer(message.Data, sequence)
		if err != nil {
			t.opts.Logger.Error("leaving out a message of the boot log of a former release", "sequence", sequence, "error", err)
		}
		all = append(all, records...)
	}
	taken := t.adopt(all, host) // at once: what is stored meanwhile must be the last state of each host
	return func(ctx context.Context) error {
		err := wait.PollUntilContextCancel(ctx, formerPause, true, func(context.Context) (bool, error) {
			return t.areStored(taken), nil
		})
		if err != nil {
			return err
		}
		t.opts.Logger.Info("the boot log of a former release was taken over", "states", len(taken))
		return stream.Purge(ctx, jetstream.WithPurgeSequence(state.LastSeq+1))
	}, nil
}

// adopt takes over records that the status of their host does not include.
func (t *Tracker) adopt(records []formerRecord, host func(model.Ref) *model.Host) (taken []model.Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range records {
		r := &records[i]
		h, m := host(r.Host), t.machines[r.Host]
		if h == nil || h.UID != r.UID || m != nil && m.revision > 0 {
			continue // the host is gone, or has a newer boot
		}
		m = t.machineLocked(h)
		if r.Progress.Position <= m.Progress.Position {
			continue
		}
		if r.after < m.Progress.Position && m.Progress.Seen.Unix() > r.Progress.Seen.Unix() {
			m.Progress.Position = r.Progress.Position
			continue
		}
		m.Boot, m.open = r.Boot, nil
		m.Number = m.Progress.Boots
		t.changedLocked(m, true)
		taken = append(taken, r.Host)
	}
	return taken
}

// areStored reports whether the boots of hosts are stored.
func (t *Tracker) areStored(hosts []model.Ref) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, host := range hosts {
		if m := t.machines[host]; m != nil && m.unstored() {
			return false
		}
	}
	return true
}

var errFormat = errors.New("the message is not one of the boot log, or is damaged")

// The first byte of every message is its version. Each record of the second one has the use of a provisioning window.
const (
	formerVersion = 1
	windowVersion = 2
)

// readFormer reads a message: its version, what is added to its sequence to make the position of its records, the
// sequence of the last trim, and the records.
func readFormer(data []byte, sequence uint64) ([]formerRecord, error) {
	if len(data) == 0 || data[0] != formerVersion && data[0] != windowVersion {
		return nil, errFormat
	}
	r := reader{Reader: bytes.NewReader(data[1:])}
	base, _ := r.uvarint(), r.uvarint()
	var records []formerRecord
	for r.Len() > 0 && r.err == nil {
		record := r.record()
		record.Progress.Position = base + sequence
		if data[0] == windowVersion {
			record.Progress.Window = r.window()
		}
		records = append(records, record)
	}
	if r.err != nil {
		return nil, errFormat
	}
	return records, nil
}

// reader reads the parts of a message.
type reader struct {
	*bytes.Reader
	// err says that one of them is not there.
	err error
}

func (r *reader) record() (rec formerRecord) {
	p := &rec.Progress
	for _, s := range [...]*string{
		&rec.Host.Namespace, &rec.Host.Name, &rec.UID, &p.State, &p.Rearmed, &rec.Config.Namespace, &rec.Config.Name,
		&rec.Hash,
	} {
		*s = r.str()
	}
	p.State = model.StateOf(p.State)
	for _, t := range [...]*time.Time{&p.Seen, &p.Script, &p.Boot} {
		*t = r.time()
	}
	p.Boots = r.varint()
	rec.after = r.uvarint()
	return rec
}

func (r *reader) window() *model.Window {
	if r.uvarint() == 0 {
		return nil
	}
	w := &model.Window{Opened: r.time(), Closed: r.time(), Token: r.time(), Fetches: r.varint(), Boot: r.varint()}
	w.First, _ = netip.ParseAddr(r.str()) // "" is none
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		if client, err := netip.ParseAddr(r.str()); err == nil {
			w.Clients = append(w.Clients, client)
		}
	}
	return w
}

// time returns a time; 0 is zero.
func (r *reader) time() time.Time {
	if nanoseconds := r.varint(); nanoseconds != 0 {
		return time.Unix(0, nanoseconds).UTC()
	}
	return time.Time{}
}

func (r *reader) str() string {
	n := r.uvarint()
	if n > uint64(r.Len()) {
		r.err = io.ErrUnexpectedEOF
		return ""
	}
	s := make([]byte, n)
	_, _ = r.Read(s)
	return string(s)
}

func (r *reader) uvarint() uint64 {
	v, err := binary.ReadUvarint(r)
	r.err = cmp.Or(r.err, err)
	return v
}

func (r *reader) varint() int64 {
	v, err := binary.ReadVarint(r)
	r.err = cmp.Or(r.err, err)
	return v
}
