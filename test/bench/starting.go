package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// starts measures how long a server with a large store takes to start, with the
// check of what the store has lost and without: a start without key logs has
// nothing to check.
func (b *bench) starts(ctx context.Context, data string) error {
	keys := filepath.Join(b.dir, data, "ledger")
	var with, without, ratios []float64
	for range b.rounds {
		checked, err := b.start(ctx, data)
		if err != nil {
			return err
		}
		if err := removeKeyLogs(keys); err != nil {
			return err
		}
		unchecked, err := b.start(ctx, data) // and writes them
		if err != nil {
			return err
		}
		with, without, ratios = append(with, checked), append(without, unchecked), append(ratios, checked/unchecked)
	}
	b.add(fmt.Sprintf("start to /readyz with the check of the store, %d hosts and %d configs", b.hosts, b.configs),
		fmt.Sprintf("%.2f s", median(with)), fmt.Sprintf("without the check %.2f s", median(without)),
		fmt.Sprintf("%.2f", median(ratios)), "<= 4 s and <= 1.2")
	return nil
}

// start starts and stops a server, and gives the seconds until it was ready.
func (b *bench) start(ctx context.Context, data string) (float64, error) {
	p, err := b.glowplug(ctx, data)
	if err != nil {
		return 0, err
	}
	p.stop()
	return p.started.Seconds(), nil
}

func removeKeyLogs(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.keys"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no key logs in %s: %v", dir, err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}
