package bootlog

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
)

func value(t *testing.T, l *Log) float64 {
	t.Helper()
	return testutil.ToFloat64(l.metrics.lost)
}

func TestMessage(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(1_800_000_000+s, 123_456_789).UTC() }
	records := []Record{
		{},
		{
			Host: model.Ref{Namespace: "g10", Name: "server1"}, UID: "u", After: 1 << 40,
			Config: model.Ref{Namespace: "g10", Name: "builder"}, Hash: "sha256:abc",
			Progress: model.Progress{State: v1.StateProvisioned, Script: at(1), Seen: at(2), Boot: at(3),
				Rearmed: "2026-11-20", Boots: 7},
		},
	}
	message := checkMessage(t, header{base: 5, floor: 9}, records)
	if message[0] != 1 {
		t.Error("an earlier release cannot read a message without windows")
	}
	records[1].Progress.Window = &model.Window{
		Opened: at(4).Truncate(time.Second), Closed: at(5).Truncate(time.Second), Fetches: 3, Boot: 7,
		Token:   at(6).Truncate(time.Second),
		First:   netip.MustParseAddr("192.0.2.5"),
		Clients: []netip.Addr{netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("2001:db8::5")},
	}
	message = checkMessage(t, header{base: 5, floor: 9, windows: true}, records)
	if len(message) > 300 {
		t.Errorf("%d bytes", len(message))
	}
	for _, cut := range []int{0, 1, len(message) / 2, len(message) - 1} {
		if _, _, err := readMessage(message[:cut]); err == nil {
			t.Errorf("%d of %d bytes are read as a message", cut, len(message))
		}
	}
	message[0]++
	if _, _, err := readMessage(message); err == nil {
		t.Error("another version is read")
	}
}

// checkMessage writes a message and checks that it is read as it was.
func checkMessage(t *testing.T, h header, records []Record) []byte {
	t.Helper()
	message := appendHeader(nil, h)
	for i := range records {
		message = appendRecord(message, h, &records[i])
	}
	read, got, err := readMessage(message)
	if err != nil || read != h {
		t.Fatalf("%+v, %v", read, err)
	}
	if diff := cmp.Diff(records, got, compareAddr); diff != "" {
		t.Error(diff)
	}
	return message
}

var compareAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func FuzzMessage(f *testing.F) {
	r := Record{Host: model.Ref{Namespace: "g10", Name: "server1"}, UID: "u"}
	f.Add(appendRecord(appendHeader(nil, header{}), header{}, &r))
	r.Progress.Window = &model.Window{Fetches: 2, First: netip.MustParseAddr("192.0.2.5")}
	f.Add(appendRecord(appendHeader(nil, header{windows: true}), header{windows: true}, &r))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, records, err := readMessage(data)
		if err != nil {
			return
		}
		again := appendHeader(nil, h)
		for i := range records {
			again = appendRecord(again, h, &records[i])
		}
		if _, got, err := readMessage(again); err != nil || !cmp.Equal(records, got, compareAddr) {
			t.Errorf("%v\n%s", err, cmp.Diff(records, got, compareAddr))
		}
	})
}

func BenchmarkMessage(b *testing.B) {
	r := Record{Host: model.Ref{Namespace: "g10", Name: "server1"}, UID: "8c1f9f0e-7d1f-4f5c-9d0e-3d3b8f6f4a11",
		Progress: model.Progress{State: v1.StateProvisioned, Seen: time.Now()}}
	b.ReportAllocs()
	message := make([]byte, 0, 1024)
	for b.Loop() {
		message = appendRecord(appendHeader(message[:0], header{}), header{}, &r)
	}
}
