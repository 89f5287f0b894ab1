package kvstore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	v1 "glowplug/api/v1"

	"glowplug/internal/logs/logstest"
)

func createHosts(t testing.TB, s *Store, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		h := host(i)
		if err := s.Create(context.Background(), "/baremetalhosts/default/"+h.Name, h, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// flipBit changes one bit of a stored record that contains the text.
func flipBit(t *testing.T, dir, bucket, text string) (msgs string) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(dir, "nats/jetstream/*/streams/KV_"+bucket+"/msgs/*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("blocks %q, %v", blocks, err)
	}
	raw, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(raw, []byte(text))
	if i < 0 {
		t.Fatalf("no record contains %q", text)
	}
	raw[i] ^= 1
	if err := os.WriteFile(blocks[0], raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(blocks[0])
}

func TestBitFlipIsAlarmedByName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := startEmbedded(t, dir)
	s := New(hostKind("HOSTS"), Options{Exclusive: true, Ledger: server})
	stop := run(t, s, connect(t, server))
	awaitReady(t, s)
	createHosts(t, s, 0, 20)
	stop()
	stopEmbedded(t, server)
	flipBit(t, dir, "HOSTS", "host-000007.example.com")

	server = startEmbedded(t, dir)
	logger, lines := logstest.Logger()
	s = New(hostKind("HOSTS"), Options{Exclusive: true, Ledger: server, Logger: logger})
	run(t, s, connect(t, server))
	awaitReady(t, s)
	if got := s.count(); got != 19 {
		t.Errorf("%d objects are left, want 19", got)
	}
	if !strings.Contains(lines(), "object=baremetalhosts/default/host-000007") {
		t.Errorf("the log does not name the object:\n%s", lines())
	}
	if got := len(s.Lost()); got != 1 {
		t.Errorf("damaged objects = %v, want 1", got)
	}
	createHosts(t, s, 7, 8) // applying it again is the remedy
	if got := len(s.Lost()); got != 0 {
		t.Errorf("damaged objects = %v after the repair, want 0", got)
	}
}

// Without its index the server cuts a damaged file at the damage: the bucket is
// older than what was acknowledged.
func TestLostEndIsRefused(t *testing.T) {
	dir := t.TempDir()
	server := startEmbedded(t, dir)
	s := New(hostKind("HOSTS"), Options{Exclusive: true, Ledger: server})
	stop := run(t, s, connect(t, server))
	awaitReady(t, s)
	createHosts(t, s, 0, 20)
	stop()
	stopEmbedded(t, server)
	msgs := flipBit(t, dir, "HOSTS", "host-000007.example.com")
	if err := os.Remove(filepath.Join(msgs, "index.db")); err != nil {
		t.Fatal(err)
	}

	server = startEmbedded(t, dir)
	logger, lines := logstest.Logger()
	s = New(hostKind("HOSTS"), Options{Exclusive: true, Ledger: server, Logger: logger})
	run(t, s, connect(t, server))
	eventually(t, "the loss is noticed", func() bool { return errors.Is(s.ReadinessCheck(), errOlder) })
	if s.Loaded() {
		t.Error("what is left was loaded")
	}
	if !strings.Contains(lines(), "level=ERROR") || !strings.Contains(lines(),
		"revision 8, and this server has seen 21") || s.metrics.lost.Load() != 13 {
		t.Errorf("lost %d revisions, want 13; log:\n%s", s.metrics.lost.Load(), lines())
	}
}

// A checksum that does not agree keeps the value that was known, and the object
// can be written again.
func TestChecksumMismatch(t *testing.T) {
	js := connect(t, startEmbedded(t, t.TempDir()))
	logger, lines := logstest.Logger()
	s := New(hostKind("HOSTS"), Options{Logger: logger})
	run(t, s, js)
	awaitReady(t, s)
	createHosts(t, s, 1, 2)
	msg := nats.NewMsg("$KV.HOSTS.default/host-000001")
	msg.Data = []byte(`{"spoiled":true}`)
	msg.Header.Set(metaHeader, "sum=00000000")
	ack, err := js.PublishMsg(context.Background(), msg)
	if err != nil {
		t.Fatal(err)
	}
	s.progress.await(context.Background(), ack.Sequence)
	if !strings.Contains(lines(), "baremetalhosts/default/host-000001") {
		t.Errorf("the log does not name the object:\n%s", lines())
	}
	update(t, s, 1, func(h *v1.BareMetalHost) { h.Spec.IP = "192.0.2.1" })
	if got := get(t, s, 1).Spec.IP; got != "192.0.2.1" {
		t.Errorf("ip = %q after the repair", got)
	}
}
