package question

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestAsk: a question that is lost is asked again, and a slow answer is not.
func TestAsk(t *testing.T) {
	errRefused := errors.New("refused")
	tests := []struct {
		name  string
		after map[int32]time.Duration // by call: when it is answered; the others never are
		err   error
		value int32
		took  time.Duration
	}{
		{"the first call is answered", map[int32]time.Duration{1: 10 * time.Millisecond}, nil, 1, 10 * time.Millisecond},
		{"the first calls are lost", map[int32]time.Duration{3: 10 * time.Millisecond}, nil, 3, 2*interval +
			10*time.Millisecond},
		{"the first call is answered late", map[int32]time.Duration{1: 3 * interval}, nil, 1, 3 * interval},
		{"an error is an answer", map[int32]time.Duration{2: time.Millisecond}, errRefused, 2, interval + time.Millisecond},
		{"nothing is answered", nil, context.DeadlineExceeded, 0, 5 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				var calls atomic.Int32
				began := time.Now()
				value, err := Ask(ctx, func(ctx context.Context) (int32, error) {
					call := calls.Add(1)
					after, answered := tt.after[call]
					if !answered {
						<-ctx.Done()
						return 0, ctx.Err()
					}
					select {
					case <-time.After(after):
						return call, tt.err
					case <-ctx.Done():
						return 0, ctx.Err()
					}
				})
				if value != tt.value || !errors.Is(err, tt.err) || time.Since(began) != tt.took {
					t.Errorf("%d %v after %s, want %d %v after %s", value, err, time.Since(began), tt.value, tt.err, tt.took)
				}
			})
		})
	}
}
