package client

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
)

// A transport that still reads the body of an earlier try changes nothing once that is closed.
func TestBodyCountsNothingAfterClose(t *testing.T) {
	counted := int64(0) // without a lock of its own
	body := NewBody(strings.NewReader(strings.Repeat("x", 1<<16)), func(n int64) { counted += n })
	var reading sync.WaitGroup
	reading.Go(func() {
		if _, err := io.Copy(io.Discard, body); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	if err := body.Close(); err != nil {
		t.Error(err)
	}
	atClose := counted
	reading.Wait()
	if n, err := body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrClosed) || counted != atClose {
		t.Errorf("%d bytes were read after Close, %d counted, %v", n, counted-atClose, err)
	}
}
