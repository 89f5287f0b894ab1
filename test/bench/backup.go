package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// bootsBeside is how many boots are counted in one measurement beside a backup.
const bootsBeside = 3000

// backup measures a backup and a restore of the large store, and boots while backups run.
func (b *bench) backup(ctx context.Context) error {
	p, err := b.booters(ctx, "backup", fleetHosts, nil)
	if err != nil {
		return err
	}
	defer p.stop()
	err = create(ctx, p.admin, "ignitionconfigs", b.configs, config)
	if err == nil {
		err = create(ctx, p.admin, "baremetalhosts", b.hosts-fleetHosts, func(i int) []byte { return host(1_000_000 + i) })
	}
	if err != nil {
		return err
	}
	if _, err := p.rested(); err != nil {
		return err
	}
	file := filepath.Join(b.dir, "backup.tar.gz")
	of := fmt.Sprintf("of %d hosts and %d configs", b.hosts, b.configs)
	if err := b.backups(ctx, p, file, of); err != nil {
		return err
	}
	if err := b.bootsBesideBackups(ctx, p, file); err != nil {
		return err
	}
	var took, memory []float64
	for range min(b.rounds, 3) {
		target := filepath.Join(b.dir, "restored")
		seconds, peak, err := b.command(ctx, "restore", file, "--data-dir", target)
		if err = errors.Join(err, os.RemoveAll(target)); err != nil {
			return err
		}
		took, memory = append(took, seconds), append(memory, peak)
	}
	b.add("restore "+of, fmt.Sprintf("%.1f s, %.0f MB", median(took), median(memory)), "-", "-", "<= 60 s, < 200 MB above idle")
	return nil
}

// backups measures backups of a server that has nothing else to do.
func (b *bench) backups(ctx context.Context, p *process, file, of string) error {
	var took, memory []float64
	for range min(b.rounds, 3) {
		idle, err := p.resident()
		if err != nil {
			return err
		}
		peak, stop := idle, make(chan struct{})
		var watching sync.WaitGroup
		watching.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
					if now, err := p.resident(); err == nil {
						peak = max(peak, now)
					}
				}
			}
		})
		seconds, own, err := b.command(ctx, "backup", file, "--server", "http://"+p.admin)
		close(stop)
		watching.Wait()
		if err != nil {
			return err
		}
		took, memory = append(took, seconds), append(memory, max(peak-idle, own))
	}
	b.add("backup "+of, fmt.Sprintf("%.1f s, %.0f MB above idle", median(took), median(memory)), "-", "-",
		"<= 20 s, < 200 MB above idle")
	return nil
}

// bootsBesideBackups compares boots of a server that writes one backup after the other with those of one that does not.
func (b *bench) bootsBesideBackups(ctx context.Context, p *process, file string) error {
	rate := func() (float64, error) {
		return timed(bootsBeside, func() error {
			return parallel(bootsBeside, func(i int) error { return b.bootOnce(ctx, p.addr, i%fleetHosts) })
		})
	}
	var with, without, ratios []float64
	for range b.rounds {
		running, stop := context.WithCancel(ctx)
		var backing sync.WaitGroup
		backing.Go(func() {
			for running.Err() == nil {
				_, _, _ = b.command(running, "backup", file, "--server", "http://"+p.admin)
			}
		})
		beside, err := rate()
		stop()
		backing.Wait()
		if err != nil {
			return err
		}
		alone, err := rate()
		if err != nil {
			return err
		}
		with, without, ratios = append(with, beside), append(without, alone), append(ratios, beside/alone)
	}
	b.add("boots/s while backups run, one after the other on the same machine", fmt.Sprintf("%.0f/s", median(with)),
		fmt.Sprintf("without %.0f/s", median(without)), fmt.Sprintf("%.2f", median(ratios)), ">= 0.9")
	// The file may be of a backup that was broken off: another one for the restore.
	_, _, err := b.command(ctx, "backup", file, "--server", "http://"+p.admin)
	return err
}

// command runs a command of the program, and tells how long it took and its greatest resident memory in MB.
func (b *bench) command(ctx context.Context, args ...string) (seconds, peak float64, err error) {
	cmd := exec.CommandContext(ctx, b.program, args...)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("glowplug %s: %w: %s", strings.Join(args, " "), err, out)
	}
	usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return time.Since(began).Seconds(), float64(usage.Maxrss) / 1000, nil
}
