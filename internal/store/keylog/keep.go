package keylog

import (
	"context"
	"time"
)

const (
	// WriteInterval is how often Keep writes the file, and syncInterval how often it
	// brings the file to the disk.
	WriteInterval = 100 * time.Millisecond
	syncInterval  = 5 * time.Second
)

// Keep writes the file at intervals until ctx ends, and then closes it. before, which
// may be nil, is called before each write. failed is given the first of several errors
// in a row, and that of closing.
func (l *Log) Keep(ctx context.Context, before func(), failed func(error)) {
	ticker := time.NewTicker(WriteInterval)
	defer ticker.Stop()
	failing, synced := false, time.Now()
	for {
		select {
		case <-ctx.Done():
			if err := l.Close(); err != nil {
				failed(err)
			}
			return
		case <-ticker.C:
		}
		if before != nil {
			before()
		}
		sync := time.Since(synced) >= syncInterval
		err := l.Write(sync)
		if sync {
			synced = time.Now()
		}
		switch {
		case err != nil && !failing: // it has to be written anew as a whole: less often
			failed(err)
			ticker.Reset(syncInterval)
		case err == nil && failing:
			ticker.Reset(WriteInterval)
		}
		failing = err != nil
	}
}
