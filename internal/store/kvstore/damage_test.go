package kvstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	v1 "glowplug/api/v1"

	"glowplug/internal/logs/logstest"
	"glowplug/internal/store/natsd"
	"glowplug/internal/store/natsd/natstest"
	"glowplug/internal/testkit"
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

// blockOf returns the only block file of a bucket, and its content.
func blockOf(t *testing.T, dir, bucket string) (path string, content []byte) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(dir, "nats/jetstream/*/streams/KV_"+bucket+"/msgs/*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("blocks %q, %v", blocks, err)
	}
	if content, err = os.ReadFile(blocks[0]); err != nil {
		t.Fatal(err)
	}
	return blocks[0], content
}

// flipBit changes one bit of the newest stored record that contains the text.
func flipBit(t *testing.T, dir, bucket, text string) {
	t.Helper()
	block, raw := blockOf(t, dir, bucket)
	i := bytes.LastIndex(raw, []byte(text))
	if i < 0 {
		t.Fatalf("no record contains %q", text)
	}
	raw[i] ^= 1
	if err := os.WriteFile(block, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestBitFlipIsRefused: a bucket of the embedded server with a damaged record is neither read nor written, and the
// reason names the file and the ways on.
func TestBitFlipIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := Options{KeyDir: filepath.Join(dir, "ledger")}
	s, stop := reopen(t, dir, opts)
	awaitReady(t, s)
	createHosts(t, s, 0, 20)
	stop()
	flipBit(t, dir, "HOSTS", "host-000007.example.com")
	for range 2 {
		s, stop = reopen(t, dir, opts)
		damage := new(natsd.Damage)
		testkit.Until(t, "the damage is noticed", func() bool { return errors.As(s.connection.ReadinessCheck(), &damage) })
		for _, want := range []string{"2.blk", "backup", "glowplug store accept-loss"} {
			if !strings.Contains(damage.Error(), want) {
				t.Errorf("there is no %q in: %v", want, damage)
			}
		}
		if err := s.Create(t.Context(), "/baremetalhosts/default/new", host(30), nil, 0); err == nil || s.connection.Loaded() {
			t.Errorf("a write gives %v, and the bucket is loaded: %v", err, s.connection.Loaded())
		}
		stop()
	}
}

// TestBitFlipIsAlarmedByName: an external NATS server reads what else there is in a damaged file.
func TestBitFlipIsAlarmedByName(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	s := New(hostKind("HOSTS"), Options{})
	stop := run(t, s, server.JetStream())
	awaitReady(t, s)
	createHosts(t, s, 0, 20)
	stop()
	server.Stop()
	dir := t.TempDir()
	if err := os.Rename(server.Copy(), filepath.Join(dir, "nats")); err != nil {
		t.Fatal(err)
	}
	flipBit(t, dir, "HOSTS", "host-000007.example.com")
	server.Use(filepath.Join(dir, "nats"))
	server.Restart()

	logger, lines := logstest.Logger()
	s = New(hostKind("HOSTS"), Options{Logger: logger})
	run(t, s, server.JetStream())
	awaitReady(t, s)
	if got := s.contents.count(); got != 19 {
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

// A file that ends early with a whole record, without its index, makes the bucket older than what was acknowledged.
func TestLostEndIsRefused(t *testing.T) {
	dir := t.TempDir()
	server := startEmbedded(t, dir)
	s := New(hostKind("HOSTS"), Options{Exclusive: true, Ledger: server})
	stop := run(t, s, connect(t, server))
	awaitReady(t, s)
	createHosts(t, s, 0, 20)
	stop()
	stopEmbedded(t, server)
	block, raw := blockOf(t, dir, "HOSTS")
	end := 0
	for at := bytes.Index(raw, []byte("host-000007.example.com")); ; {
		length := int(binary.LittleEndian.Uint32(raw[end:]) &^ (1 << 31))
		if end+length > at {
			break
		}
		end += length
	}
	if err := errors.Join(os.Truncate(block, int64(end)),
		os.Remove(filepath.Join(filepath.Dir(block), "index.db"))); err != nil {
		t.Fatal(err)
	}

	server = startEmbedded(t, dir)
	logger, lines := logstest.Logger()
	s = New(hostKind("HOSTS"), Options{Exclusive: true, Ledger: server, Logger: logger})
	run(t, s, connect(t, server))
	testkit.Until(t, "the loss is noticed", func() bool { return errors.Is(s.connection.ReadinessCheck(), errOlder) })
	if s.connection.Loaded() {
		t.Error("what is left was loaded")
	}
	testkit.Until(t, "the loss is logged", func() bool {
		return strings.Contains(lines(), "level=ERROR") && strings.Contains(lines(), "revision 8, and this server has seen 21")
	})
	if got := s.contents.metrics.lost.Load(); got != 13 {
		t.Errorf("lost %d revisions, want 13", got)
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
	s.contents.progress.await(context.Background(), ack.Sequence)
	if !strings.Contains(lines(), "baremetalhosts/default/host-000001") {
		t.Errorf("the log does not name the object:\n%s", lines())
	}
	update(t, s, 1, func(h *v1.BareMetalHost) { h.Spec.IP = "192.0.2.1" })
	if got := get(t, s, 1).Spec.IP; got != "192.0.2.1" {
		t.Errorf("ip = %q after the repair", got)
	}
}
