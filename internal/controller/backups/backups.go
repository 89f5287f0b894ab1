// Package backups writes a backup of the store into a folder at intervals, and keeps the newest ones.
package backups

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"filippo.io/age"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"glowplug/internal/controller"
	"glowplug/internal/store/backup"
)

const (
	// retryInterval is between a backup that failed and the next attempt, and firstDelay before the first one.
	retryInterval, firstDelay = 5 * time.Minute, 2 * time.Second
)

// Options are the settings of Backups.
type Options struct {
	// Dir is the folder of the backups, which is made; Every is the time between two, and Keep how many are kept.
	Dir   string
	Every time.Duration
	Keep  int
	// Recipients are those that the backups are encrypted for; none: they are not encrypted.
	Recipients []age.Recipient
	// Store returns the identity of the store; "": it is not known yet. The folder may have backups of other stores.
	Store func() string
	// Write writes a backup.
	Write func(context.Context, io.Writer) (backup.Manifest, error)
	// Done is called with the time of the newest good backup; nil: it is not.
	Done       func(time.Time)
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Backups writes backups while Run runs.
type Backups struct {
	opts   Options
	newest atomic.Int64 // the time of the newest good backup in seconds since 1970; 0: there is none
	failed prometheus.Counter
}

// New returns Backups that know what the folder has.
func New(opts Options) *Backups {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	metrics := promauto.With(opts.Registerer)
	b := &Backups{opts: opts, failed: metrics.NewCounter(prometheus.CounterOpts{
		Name: "glowplug_backup_failures_total", Help: "Backups into --backup-dir that failed.",
	})}
	if names, err := b.names(time.Now()); err == nil && len(names) > 0 {
		b.note(timeOf(names[len(names)-1]))
	}
	metrics.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "glowplug_backup_last_success_timestamp_seconds",
		Help: "Time of the newest good backup in --backup-dir; 0: there is none.",
	}, func() float64 { return float64(b.newest.Load()) })
	metrics.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "glowplug_backup_interval_seconds", Help: "Time between two backups (--backup-every).",
	}, opts.Every.Seconds)
	return b
}

// note takes over the time of a good backup.
func (b *Backups) note(at time.Time) {
	b.newest.Store(at.Unix())
	if b.opts.Done != nil {
		b.opts.Done(at)
	}
}

// Run writes a backup whenever the newest one is old enough, until ctx ends.
func (b *Backups) Run(ctx context.Context) {
	for pause := firstDelay; controller.Sleep(ctx, pause); {
		pause = b.step(ctx, time.Now())
	}
}

// step writes a backup if one is due, and returns how long to wait for the next step.
func (b *Backups) step(ctx context.Context, now time.Time) time.Duration {
	names, err := b.names(now)
	if err == nil && len(names) > 0 { // which another server may have written
		newest := timeOf(names[len(names)-1])
		b.note(newest)
		if wait := newest.Add(b.opts.Every).Sub(now); wait > 0 {
			return min(wait, b.opts.Every)
		}
	}
	if err == nil {
		err = b.save(ctx, now)
	}
	if err == nil {
		return b.opts.Every
	}
	if ctx.Err() == nil {
		b.failed.Inc()
		b.opts.Logger.Error("there is no backup: the next attempt is made soon", "dir", b.opts.Dir, "in",
			min(retryInterval, b.opts.Every), "error", err)
	}
	return min(retryInterval, b.opts.Every)
}

// save writes one backup, and removes those that are too many.
func (b *Backups) save(ctx context.Context, now time.Time) error {
	name := func(m backup.Manifest) string { return backup.Name(m, len(b.opts.Recipients) > 0) }
	m, err := backup.Save(b.opts.Dir, name, b.opts.Recipients, func(w io.Writer) error {
		_, err := b.opts.Write(ctx, w)
		return err
	})
	if err != nil {
		return err
	}
	b.note(m.Created)
	b.opts.Logger.Info("the store is saved", "file", filepath.Join(b.opts.Dir, name(m)), "objects", m.Objects(),
		"atOneMoment", m.Settled)
	return b.prune(slices.MaxFunc([]time.Time{m.Created, now}, time.Time.Compare))
}

// prune removes the oldest backups.
func (b *Backups) prune(now time.Time) (err error) {
	names, err := b.names(now)
	if err != nil {
		return err
	}
	for _, name := range names[:max(len(names)-b.opts.Keep, 0)] {
		err = errors.Join(err, os.Remove(filepath.Join(b.opts.Dir, name)))
	}
	return err
}

// pattern is that of the names that backup.Name gives, and has given without the store.
var pattern = regexp.MustCompile(`^glowplug-\d{8}T\d{6}Z(?:-(\w+))?\.tar\.gz(?:\.age)?$`)

// skew bounds the clock skew between servers that write into the same folder.
const skew = time.Minute

// names returns the names of the backups of this store in the folder, which is made if it is missing, the oldest first.
// Those of the future, which were written while the clock was wrong, are left alone until their time comes: they would
// push out the ones that are written now, and hide that there are none.
func (b *Backups) names(now time.Time) (names []string, err error) {
	if err := os.MkdirAll(b.opts.Dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(b.opts.Dir)
	store := backup.ShortID(b.opts.Store())
	for _, entry := range entries {
		name := pattern.FindStringSubmatch(entry.Name())
		isOwn := entry.Type().IsRegular() && name != nil && (name[1] == "" || name[1] == store)
		if isOwn && !timeOf(entry.Name()).After(now.Add(skew)) {
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

func timeOf(name string) time.Time {
	const layout = "20060102T150405Z"
	at, _ := time.Parse(layout, strings.TrimPrefix(name, "glowplug-")[:len(layout)])
	return at
}
