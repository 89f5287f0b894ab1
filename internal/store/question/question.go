// Package question asks a NATS cluster until it answers.
package question

import (
	"context"
	"time"
)

// interval is after how long a question without an answer is sent again.
const interval = 500 * time.Millisecond

// Ask calls f, and calls it again at intervals for as long as no call has ended. A
// cluster never answers what it was asked while a stream had no leader, not even
// once it has one; and a slow answer to the first call is taken all the same. The
// first call that ends decides. ctx has to have a deadline, and f must do no harm
// when it is called twice at a time.
func Ask[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer)
	ask := func() {
		value, err := f(ctx)
		select {
		case answers <- answer{value, err}:
		case <-ctx.Done():
		}
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	go ask()
	for {
		select {
		case a := <-answers:
			return a.value, a.err
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		case <-ticker.C:
			go ask()
		}
	}
}
