// Package batch writes messages into a stream of NATS JetStream so that all of them are stored or none, with
// one write to the disk. The stream has AllowAtomicPublish, which needs nats-server 2.12.
package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// Max is the most messages of a batch.
const Max = 1000

// errEmpty is the error of a batch without messages.
var errEmpty = errors.New("a batch has at least one message")

const (
	idHeader       = "Nats-Batch-Id"
	sequenceHeader = "Nats-Batch-Sequence"
	commitHeader   = "Nats-Batch-Commit"
)

// Publish writes 1 to Max messages, to whose headers it adds, and returns their sequences, which follow each other. A
// *jetstream.APIError says that the server which answered refused all of them; it may be about any of them. After
// nats.ErrMaxPayload nothing was sent. After other errors the messages may be in the stream.
func Publish(ctx context.Context, js jetstream.JetStream, msgs []*nats.Msg) (sequences []uint64, err error) {
	n := len(msgs)
	switch {
	case n == 0:
		return nil, errEmpty
	case n > Max:
		return nil, fmt.Errorf("a batch has at most %d messages, not %d", Max, n)
	case n > 1:
		if err := begin(js.Conn(), msgs); err != nil {
			return nil, err
		}
	}
	ack, err := js.PublishMsg(ctx, msgs[n-1], jetstream.WithRetryAttempts(0))
	if err != nil {
		return nil, err
	}
	for i := range n {
		sequences = append(sequences, ack.Sequence-uint64(n-1-i))
	}
	return sequences, nil
}

// IsConflict reports whether NATS has refused a message since it is not the next one of its subject: another one has
// come before it, or comes.
func IsConflict(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// begin sends all but the last message, which commits the batch. The server answers none of them: if it refuses
// one, it refuses the commit. A batch that is not committed takes a place from others for some seconds, so a
// message that is too large is found before the first one is sent.
func begin(conn *nats.Conn, msgs []*nats.Msg) error {
	id := nuid.Next()
	for i, msg := range msgs {
		if msg.Header == nil {
			msg.Header = nats.Header{}
		}
		msg.Header.Set(idHeader, id)
		msg.Header.Set(sequenceHeader, strconv.Itoa(i+1))
		if int64(msg.Size()) > conn.MaxPayload() {
			return nats.ErrMaxPayload
		}
	}
	last := len(msgs) - 1
	msgs[last].Header.Set(commitHeader, "1")
	for _, msg := range msgs[:last] {
		if err := conn.PublishMsg(msg); err != nil {
			return err
		}
	}
	return nil
}

// Small is how many messages are cheaper one by one than as a batch, for which a server makes a store of its own. On
// one server 16 cost 1.2 ms of CPU time one by one and 3.1 ms as a batch, and 64 cost 5.0 and 4.6 ms.
const Small = 32

// PublishEach writes messages in their order, each by itself, and returns their sequences; 0 where one may not be in
// the stream. The error is the first one.
func PublishEach(ctx context.Context, js jetstream.JetStream, msgs []*nats.Msg) (sequences []uint64, err error) {
	sequences = make([]uint64, len(msgs))
	sent := make([]jetstream.PubAckFuture, 0, len(msgs))
	for _, msg := range msgs {
		future, publishErr := js.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0))
		if err = publishErr; err != nil {
			break
		}
		sent = append(sent, future)
	}
	for i, future := range sent {
		select {
		case ack := <-future.Ok():
			sequences[i] = ack.Sequence
		case failure := <-future.Err():
			err = cmp.Or(err, failure)
		case <-ctx.Done():
			return sequences, cmp.Or(err, ctx.Err())
		}
	}
	return sequences, err
}
