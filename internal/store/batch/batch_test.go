package batch

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/natsd/natstest"
)

// stream makes one that takes batches.
func stream(t *testing.T) (jetstream.JetStream, jetstream.Stream) {
	js := natstest.Start(t).JetStream()
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "S", Subjects: []string{"s.>"}, AllowAtomicPublish: true, MaxMsgSize: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return js, s
}

func messages(n int) []*nats.Msg {
	msgs := make([]*nats.Msg, n)
	for i := range msgs {
		msgs[i] = &nats.Msg{Subject: fmt.Sprintf("s.%d", i), Data: []byte("value")}
	}
	return msgs
}

// The messages are stored one after the other, with the sequences that are returned.
func TestBatchIsStoredInItsOrder(t *testing.T) {
	js, s := stream(t)
	next := uint64(1)
	for _, n := range []int{1, 2, Max} {
		sequences, err := Publish(t.Context(), js, messages(n))
		if err != nil {
			t.Fatalf("%d messages: %v", n, err)
		}
		for i, sequence := range sequences {
			if sequence != next {
				t.Fatalf("message %d of %d has sequence %d, want %d", i, n, sequence, next)
			}
			msg, err := s.GetMsg(t.Context(), next)
			if err != nil || msg.Subject != fmt.Sprintf("s.%d", i) {
				t.Fatalf("message %d of %d: %v, %v", i, n, msg, err)
			}
			next++
		}
		if len(sequences) != n {
			t.Errorf("%d messages have %d sequences", n, len(sequences))
		}
	}
}

func TestRefusedBatchLeavesNothing(t *testing.T) {
	js, s := stream(t)
	msgs := messages(3)
	msgs[1].Header = nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"7"}}
	_, err := Publish(t.Context(), js, msgs)
	api := &jetstream.APIError{}
	if !errors.As(err, &api) || api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence {
		t.Errorf("%v, want a wrong last sequence", err)
	}
	for _, n := range []int{0, Max + 1} {
		if _, err := Publish(t.Context(), js, messages(n)); err == nil {
			t.Errorf("a batch of %d messages", n)
		}
	}
	if info, err := s.Info(t.Context()); err != nil || info.State.LastSeq != 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

// A message that is too large is found before a batch begins, and takes no place from other batches.
func TestBatchThatCannotBeSentIsNotBegun(t *testing.T) {
	js, _ := stream(t)
	large := make([]byte, js.Conn().MaxPayload()+1)
	for range 60 { // a stream takes 50 that are not committed
		msgs := messages(3)
		msgs[1].Data = large
		if _, err := Publish(t.Context(), js, msgs); !errors.Is(err, nats.ErrMaxPayload) {
			t.Fatal(err)
		}
	}
	if _, err := Publish(t.Context(), js, messages(3)); err != nil {
		t.Error(err)
	}
}

// TestMessagesEachByItself: those that the server refuses leave the others, and have no sequence.
func TestMessagesEachByItself(t *testing.T) {
	js, s := stream(t)
	msgs := messages(4)
	msgs[1].Header = nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"7"}}
	sequences, err := PublishEach(t.Context(), js, msgs)
	api := &jetstream.APIError{}
	if !errors.As(err, &api) || api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence {
		t.Errorf("%v, want a wrong last sequence", err)
	}
	if !slices.Equal(sequences, []uint64{1, 0, 2, 3}) {
		t.Errorf("the sequences are %v", sequences)
	}
	for sequence, want := range map[uint64]string{1: "s.0", 2: "s.2", 3: "s.3"} {
		if msg, err := s.GetMsg(t.Context(), sequence); err != nil || msg.Subject != want {
			t.Errorf("message %d: %v, %v", sequence, msg, err)
		}
	}
}
