package image

import (
	"math/rand/v2"
	"time"
)

// backoff is a pause that doubles.
type backoff struct{ first, most time.Duration }

// after returns the pause after so many failures in a row, the first being 1. It
// is spread by a quarter, so that many do not come back at once.
func (b backoff) after(failures int) time.Duration {
	pause := b.most
	if shift := failures - 1; shift < 20 && b.first<<shift < b.most {
		pause = b.first << shift
	}
	return pause - time.Duration(rand.Int64N(int64(pause/4)+1))
}
