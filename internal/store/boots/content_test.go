package boots

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"glowplug/internal/domain/model"
	"glowplug/internal/logs/logstest"
	"glowplug/internal/store/encryption"
	"glowplug/internal/store/kvstore/kvtest"
	"glowplug/internal/testkit"
)

func hashOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// keep has content kept, and returns its hash.
func (c *Content) keep(content string) string {
	c.Keep(hashOf(content), []byte(content))
	return hashOf(content)
}

// openContent opens a Content that stores nothing before store.
func openContent(t testing.TB, js jetstream.JetStream, opts HistoryOptions) *Content {
	t.Helper()
	c := NewHistory(opts).Content
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.keptStream.Run(ctx, js) })
	t.Cleanup(func() { cancel(); running.Wait() })
	testkit.Until(t, "the content is open", func() bool { _, _, err := c.use(); return err == nil })
	return c
}

// store stores what waits, and returns how many messages that were.
func (c *Content) store(t testing.TB) (puts uint64) {
	t.Helper()
	before := c.last(t)
	for c.waits() {
		c.write(t.Context())
	}
	return c.last(t) - before
}

func (c *Content) last(t testing.TB) uint64 {
	t.Helper()
	_, stream, err := c.use()
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.State.LastSeq
}

// after sets the clock.
func (c *Content) after(d time.Duration) { c.now = func() time.Time { return time.Now().Add(d) } }

// TestContentIsKeptOnce: 10,000 boots of one config, at the same time, are one put.
func TestContentIsKeptOnce(t *testing.T) {
	t.Parallel()
	c := openContent(t, kvtest.JetStream(t), HistoryOptions{})
	var boots sync.WaitGroup
	for i := range 100 {
		boots.Go(func() {
			for range 100 {
				c.keep("the config of all")
			}
			c.keep(fmt.Sprint("the script of ", i))
		})
	}
	boots.Wait()
	if got := c.store(t); got != 101 {
		t.Errorf("%d puts", got)
	}
	c.keep("the config of all")
	if got := c.store(t); got != 0 {
		t.Errorf("%d more puts", got)
	}
	got, err := c.Get(t.Context(), hashOf("the config of all"))
	if err != nil || string(got) != "the config of all" {
		t.Errorf("%q, %v", got, err)
	}
	for _, none := range []string{hashOf("another one"), "* and > are in no hash", ""} {
		if _, err := c.Get(t.Context(), none); !errors.Is(err, ErrNotKept) {
			t.Errorf("%q: %v", none, err)
		}
	}
}

// TestContentIsStoredSoon: by itself, and also what was given last before the server stops.
func TestContentIsStoredSoon(t *testing.T) {
	t.Parallel()
	js := kvtest.JetStream(t)
	h := NewHistory(HistoryOptions{})
	h.Content.keep("before it is open")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { h.Run(ctx, js) })
	is := func(content string) bool {
		_, err := h.Content.Get(t.Context(), hashOf(content))
		return err == nil
	}
	testkit.Until(t, "the first content is stored", func() bool { return is("before it is open") })
	h.Content.keep("last")
	cancel()
	running.Wait()
	if c := openContent(t, js, HistoryOptions{}); c.last(t) != 2 {
		t.Errorf("%d contents are stored", c.last(t))
	}
}

// TestContentLivesAsLongAsItsBoot: a message is removed after 1.5 times the age of the history, and none is older than
// 0.5 times that after a boot that names it has begun, or has gone to the history.
func TestContentLivesAsLongAsItsBoot(t *testing.T) {
	t.Parallel()
	js := kvtest.JetStream(t)
	const age = 90 * 24 * time.Hour
	opts := HistoryOptions{Keep: Limits{Age: age, Bytes: 1 << 30, PerHost: 200}}
	c := openContent(t, js, opts)
	_, stream, _ := c.use()
	if cfg := stream.CachedInfo().Config; cfg.MaxAge != age*3/2 || cfg.MaxBytes != 1<<30 || cfg.MaxMsgsPerSubject != 1 {
		t.Errorf("%+v", cfg)
	}
	ended := boot("g10", "one", 1)
	ended.Script, ended.Config.Hash = hashOf("script"), hashOf("config")
	begin := func(c *Content) {
		c.Keep(model.ScriptContent(ended), []byte("script"))
		c.Keep(model.ConfigContent(ended), []byte("config"))
	}
	end := func(c *Content) { c.renew(ended) }
	want := func(c *Content, after time.Duration, step func(*Content), puts uint64) {
		t.Helper()
		c.after(after)
		step(c)
		if got := c.store(t); got != puts {
			t.Errorf("%d puts after %s, want %d", got, after, puts)
		}
	}
	const soon, late = age/2 - time.Hour, age/2 + time.Hour
	want(c, 0, end, 0) // nothing is stored
	want(c, 0, begin, 2)
	want(c, soon, begin, 0)
	want(c, soon, end, 0)
	want(c, late, begin, 2)
	want(c, late+soon, end, 0)
	want(c, 2*late, end, 2)
	other := openContent(t, js, opts) // another server, or the next process, finds that the messages are of now
	want(other, soon, end, 0)
	want(other, late, end, 2)
	for kept, name := range map[string]string{"config": model.ConfigContent(ended), "script": model.ScriptContent(ended)} {
		if got, err := other.Get(t.Context(), name); err != nil || string(got) != kept {
			t.Errorf("%q, %v", got, err)
		}
	}
	h := runHistory(t, js, opts)
	h.Content.after(late)
	h.mustAppend(t, ended)
	testkit.Until(t, "a boot that goes to the history has its content stored again", func() bool { return c.last(t) == 10 })
}

// TestContentNeverBlocks: what does not fit is given up, with one warning, and stored when it is given again.
func TestContentNeverBlocks(t *testing.T) {
	t.Parallel()
	logger, lines := logstest.Logger()
	var full error
	c := openContent(t, kvtest.JetStream(t), HistoryOptions{Logger: logger, Room: func(int) error { return full }})
	big := bytes.Repeat([]byte("x"), maxContent-pieceCost)
	for i := range 10 {
		c.Keep(fmt.Sprint("sha256:", i), big)
	}
	c.Keep("sha256:larger", append(big, 'x'))
	if got := testutil.ToFloat64(c.dropped); got != 3 || c.waiting > maxWaiting {
		t.Errorf("%v are given up, %d bytes wait", got, c.waiting)
	}
	if puts := c.store(t); puts != 8 || c.waiting != 0 {
		t.Errorf("%d puts, %d bytes wait", puts, c.waiting)
	}
	full = errors.New("the disk is full")
	c.keep("config")
	if puts := c.store(t); puts != 0 || strings.Count(lines(), "level=WARN") != 2 {
		t.Errorf("%d puts\n%s", puts, lines())
	}
	full = nil
	c.keep("config")
	if puts := c.store(t); puts != 1 || !strings.Contains(lines(), "kept again") {
		t.Errorf("%d puts\n%s", puts, lines())
	}
}

// TestMissingContentIsMadeAgain: content is given up once, and kept in a new stream.
func TestMissingContentIsMadeAgain(t *testing.T) {
	t.Parallel()
	js := kvtest.JetStream(t)
	c := openContent(t, js, HistoryOptions{})
	if err := js.DeleteStream(t.Context(), ContentStream); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "content is kept again", func() bool {
		c.keep("config")
		c.write(t.Context())
		_, err := c.Get(t.Context(), hashOf("config"))
		return err == nil
	})
}

// TestContentIsEncrypted: the messages have no plain text, and each is bound to its hash.
func TestContentIsEncrypted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [boots]\n" +
		"  providers: [{aesgcm: {keys: [{name: a, secret: QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=}]}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := encryption.Load(t.Context(), file, "test")
	if err != nil {
		t.Fatal(err)
	}
	js := kvtest.JetStream(t)
	c := openContent(t, js, HistoryOptions{Cipher: keys.Of(schema.GroupResource{Resource: "boots"})})
	c.keep("a plain config")
	c.store(t)
	_, stream, _ := c.use()
	msg, err := stream.GetMsg(t.Context(), 1)
	if err != nil || bytes.Contains(msg.Data, []byte("plain")) || encryption.Key(msg.Data) == "" {
		t.Errorf("%q, %v", msg.Data, err)
	}
	if got, err := c.Get(t.Context(), hashOf("a plain config")); err != nil || string(got) != "a plain config" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := js.Publish(t.Context(), contentSubjects+encodeToken(hashOf("other")), msg.Data); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Get(t.Context(), hashOf("other")); err == nil {
		t.Errorf("%q", got)
	}
}
