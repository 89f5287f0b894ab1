package tftp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	// firstWait is how long an answer is waited for at first; it doubles until maxWait.
	firstWait = time.Second
	maxWait   = 4 * time.Second
	// maxTries is how often a packet is sent without an answer, firstTries how often the first one, since the sender of
	// the request may be another one, and maxTransfer the time of a transfer at most.
	maxTries    = 6
	firstTries  = 3
	maxTransfer = 10 * time.Minute
)

// errAborted is the error of a client that ended the transfer, such as one that only wanted to know the size.
var errAborted = errors.New("the client ended it")

// transfer sends a file to one client.
type transfer struct {
	conn    net.Conn
	request *request
	file    io.ReaderAt
	size    int64
	// packet holds one packet to send, and answer one that came.
	packet, answer []byte
	wait           time.Duration
	// answered is called when the client has answered for the first time.
	answered func()
	tries    int
}

// blocks returns the number of blocks; the last one is shorter than the others, perhaps empty.
func (t *transfer) blocks() int64 { return t.size/int64(t.request.block) + 1 }

// run sends the file.
func (t *transfer) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxTransfer)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = t.conn.SetDeadline(time.Unix(1, 0)) })()
	t.packet, t.answer = make([]byte, 4+t.request.block), make([]byte, 516)
	t.wait, t.tries = firstWait, firstTries
	if oack := t.request.oack(t.size); oack != nil {
		err := t.exchange(ctx, func() error { return t.send(oack) }, func(block uint16) bool { return block == 0 })
		if err != nil {
			return err
		}
	}
	for base, last := int64(0), t.blocks(); base < last; {
		end := min(base+int64(t.request.window), last)
		err := t.exchange(ctx, func() error { return t.window(base, end) }, func(block uint16) bool {
			// The number has 16 bits, and goes on from 0.
			n := int64(block - uint16(base))
			if n < 1 || n > end-base {
				return false // of an earlier window
			}
			base += n
			return true
		})
		if errors.Is(err, errSilent) && end == last && t.tries == maxTries {
			return nil // GRUB may leave out its last answer
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errSilent says that a client answers nothing.
var errSilent = errors.New("the client has not answered")

// window sends the blocks after base up to end.
func (t *transfer) window(base, end int64) error {
	for n := base + 1; n <= end; n++ {
		binary.BigEndian.PutUint16(t.packet, opData)
		binary.BigEndian.PutUint16(t.packet[2:], uint16(n))
		from := (n - 1) * int64(t.request.block)
		length := min(int64(t.request.block), t.size-from)
		if n, err := t.file.ReadAt(t.packet[4:4+length], from); int64(n) < length {
			_ = t.send(failure(codeUndefined, "the file cannot be read"))
			return err
		}
		if err := t.send(t.packet[:4+length]); err != nil {
			return err
		}
	}
	return nil
}

func (t *transfer) send(packet []byte) error {
	_, err := t.conn.Write(packet)
	return err
}

// exchange sends until an answer is the one awaited. An answer of an earlier block starts nothing anew: that would
// send every block twice from then on.
func (t *transfer) exchange(ctx context.Context, send func() error, isAwaited func(block uint16) bool) error {
	wait := t.wait
	for range t.tries {
		if err := send(); err != nil {
			return err
		}
		until := time.Now().Add(wait)
		for {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := t.conn.SetReadDeadline(until); err != nil {
				return err
			}
			n, err := t.conn.Read(t.answer)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if errors.Is(err, syscall.ECONNREFUSED) { // its port is closed
				return errAborted
			}
			if err != nil {
				return err
			}
			block, isAck, err := readAnswer(t.answer[:n])
			if err != nil {
				return err
			}
			if isAck && isAwaited(block) {
				t.firstAnswer()
				return nil
			}
		}
		wait = max(wait, min(2*wait, maxWait))
	}
	return fmt.Errorf("%w %d times", errSilent, t.tries)
}

// firstAnswer ends the doubt about who has sent the request.
func (t *transfer) firstAnswer() {
	if t.tries == maxTries {
		return
	}
	t.tries = maxTries
	t.answered()
	if t.request.timeout > 0 {
		t.wait = min(time.Duration(t.request.timeout)*time.Second, maxWait)
	}
}

// readAnswer reads a packet of the client.
func readAnswer(packet []byte) (block uint16, isAck bool, err error) {
	if len(packet) < 4 {
		return 0, false, nil
	}
	switch value := binary.BigEndian.Uint16(packet[2:]); binary.BigEndian.Uint16(packet) {
	case opAck:
		return value, true, nil
	case opError:
		return 0, false, errAborted
	}
	return 0, false, nil
}
