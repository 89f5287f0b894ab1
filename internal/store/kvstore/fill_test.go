package kvstore

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/natsd/natstest"
)

// TestFillEndsWithoutAnswers: NATS whose disk is full answers nothing, and a restore must not wait for ever.
func TestFillEndsWithoutAnswers(t *testing.T) {
	former := fillTimeout
	fillTimeout = 100 * time.Millisecond
	t.Cleanup(func() { fillTimeout = former })
	js := natstest.Start(t).JetStream()
	b := newBucket(Kind{Bucket: "FULL", Resource: kinds.Secrets}, Options{})
	config := b.streamConfig()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: config.Name, Subjects: config.Subjects, NoAck: true,
	}); err != nil {
		t.Fatal(err)
	}
	f := &Filler{js: js, bucket: b, id: "x"}
	if err := f.Add(t.Context(), Record{Key: "a/b", Value: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(t.Context()); !errors.Is(err, errNotStored) {
		t.Error(err)
	}
}
