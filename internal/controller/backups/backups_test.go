package backups

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"glowplug/internal/logs/logstest"
	"glowplug/internal/store/backup"
)

// folder returns the names in a folder.
func folder(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestBackupsAtIntervals: a backup is written when the newest one is old enough, over restarts of the server; the
// newest are kept, and no other file is touched. A failure keeps all, and is tried again soon.
func TestBackupsAtIntervals(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "backups")
	began := time.Now().UTC().Truncate(time.Second).Add(-72 * time.Hour)
	now := began
	var failure error
	log, logged := logstest.Logger()
	var done time.Time
	opts := Options{Dir: dir, Every: 6 * time.Hour, Keep: 3, Logger: log, Done: func(at time.Time) { done = at },
		Store: func() string { return "OURSTORE7" },
		Write: func(ctx context.Context, w io.Writer) (backup.Manifest, error) {
			m := backup.Manifest{Created: now, Store: "OURSTORE7"}
			return m, errors.Join(backup.Write(ctx, w, m, nil, nil, func() {}), failure)
		}}
	b := New(opts)
	if wait := b.step(t.Context(), now); wait != opts.Every || len(folder(t, dir)) != 1 || !done.Equal(now) {
		t.Fatalf("the first: %v %v %v", wait, folder(t, dir), done)
	}
	if err := os.WriteFile(filepath.Join(dir, "mine.tar.gz"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	done = time.Time{}
	b = New(opts) // after a restart
	if !done.Equal(now) {
		t.Errorf("the newest after a restart: %v", done)
	}
	if wait := b.step(t.Context(), now.Add(time.Hour)); wait != 5*time.Hour || len(folder(t, dir)) != 2 {
		t.Errorf("after an hour: %v %v", wait, folder(t, dir))
	}
	for range 4 {
		now = now.Add(6 * time.Hour)
		b.step(t.Context(), now)
	}
	named := func(hours time.Duration) string {
		return backup.Name(backup.Manifest{Created: began.Add(hours * time.Hour), Store: "OURSTORE7"}, false)
	}
	want := []string{named(12), named(18), named(24), "mine.tar.gz"}
	if got := folder(t, dir); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	failure, now = errors.New("the store has lost hosts"), now.Add(6*time.Hour)
	if wait := b.step(t.Context(), now); wait != retryInterval || !slices.Equal(folder(t, dir), want) ||
		!strings.Contains(logged(), "there is no backup") || !strings.Contains(logged(), "the store has lost hosts") {
		t.Errorf("a failure: %v %v %s", wait, folder(t, dir), logged())
	}
	failure = nil
	// The clock was wrong: backups of the future are no reason to have none now, and push out none.
	future := []string{"glowplug-20991130T200000Z.tar.gz", "glowplug-20991201T020000Z.tar.gz", "glowplug-20991201T080000Z.tar.gz"}
	for _, name := range future {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	done = time.Time{}
	New(opts)
	if !done.Equal(began.Add(24 * time.Hour)) {
		t.Errorf("the newest beside those of the future: %v", done)
	}
	b.step(t.Context(), now)
	want = append([]string{named(18), named(24), named(30)}, append(future, "mine.tar.gz")...)
	if got := folder(t, dir); !slices.Equal(got, want) {
		t.Errorf("beside backups of the future: %v", got)
	}
	// A folder and a link with such a name are of somebody else.
	links := []string{"glowplug-20000101T000000Z.tar.gz", "glowplug-20000102T000000Z.tar.gz"}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, links[0]), 0o700),
		os.Symlink("mine.tar.gz", filepath.Join(dir, links[1]))); err != nil {
		t.Fatal(err)
	}
	now = now.Add(6 * time.Hour)
	b.step(t.Context(), now)
	if got := folder(t, dir); !slices.Equal(got[:3], append(links, named(24))) {
		t.Errorf("beside what is of somebody else: %v", got)
	}
}

// TestStoresShareAFolder: each of two stores with one folder has its own backups there, and removes none of the other.
// Those from before names had the store count as one's own.
func TestStoresShareAFolder(t *testing.T) {
	dir, began := t.TempDir(), time.Now().UTC().Truncate(time.Second).Add(-72*time.Hour)
	name := func(store string, at time.Time) string {
		return backup.Name(backup.Manifest{Created: at, Store: store}, false)
	}
	former := "glowplug-20260101T000000Z.tar.gz"
	if err := os.WriteFile(filepath.Join(dir, former), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	step := func(store string, now time.Time) time.Duration {
		b := New(Options{Dir: dir, Every: time.Hour, Keep: 2, Store: func() string { return store },
			Write: func(ctx context.Context, w io.Writer) (backup.Manifest, error) {
				m := backup.Manifest{Created: now, Store: store}
				return m, backup.Write(ctx, w, m, nil, nil, func() {})
			}})
		return b.step(t.Context(), now)
	}
	step("STOREA123", began)
	if wait := step("STOREB123", began.Add(time.Minute)); wait != time.Hour {
		t.Errorf("the second store waits %v: it takes the backup of the first one for its own", wait)
	}
	step("STOREA123", began.Add(time.Hour))
	step("STOREA123", began.Add(2*time.Hour))
	want := []string{name("STOREB123", began.Add(time.Minute)),
		name("STOREA123", began.Add(time.Hour)), name("STOREA123", began.Add(2*time.Hour))}
	if got := folder(t, dir); !slices.Equal(got, want) {
		t.Errorf("the folder has %q, want %q", got, want)
	}
}
