package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	downloadMB = 1000
	// readers download the file at once.
	readers = 4
)

// images compares downloads of a large file, as a kernel or an installer reads it, with nginx.
func (b *bench) images(ctx context.Context) error {
	folder, assets := filepath.Join(b.dir, "downloads"), filepath.Join(b.dir, "assets")
	file := filepath.Join(folder, "image.iso")
	if err := makeISO(ctx, b.dir, file, downloadMB); err != nil {
		return err
	}
	defer os.Remove(file)
	if err := os.Mkdir(assets, 0o755); err != nil {
		return err
	}
	if err := os.Link(file, filepath.Join(assets, "image.iso")); err != nil {
		return err
	}
	// First: a link changes the state of the file, which is then read again.
	static, err := b.nginx(ctx, file)
	if err != nil {
		return err
	}
	defer static.stop()
	portal, err := freeAddress()
	if err != nil {
		return err
	}
	p, err := b.glowplug(ctx, "downloads-data", "--iso-dir", folder, "--assets-dir", assets, "--iscsi-listen", portal)
	if err != nil {
		return err
	}
	defer p.stop()
	if _, err := cdrom(ctx, p.admin, "image"); err != nil {
		return err
	}
	for _, path := range []string{"/iso/bench/image.iso", "/assets/image.iso"} {
		if err := b.compareDownloads(ctx, p, path, static); err != nil {
			return err
		}
	}
	return nil
}

// download is how fast a server sends, and how long it works.
type download struct{ rate, cpu []float64 }

// compareDownloads downloads from both servers in turn.
func (b *bench) compareDownloads(ctx context.Context, p *process, path string, static *process) error {
	var ours, theirs download
	var rates, work []float64
	for i := range b.rounds {
		if err := ours.add(ctx, p, path); err != nil {
			return err
		}
		if err := theirs.add(ctx, static, "/config"); err != nil {
			return err
		}
		rates = append(rates, ours.rate[i]/theirs.rate[i])
		work = append(work, ours.cpu[i]/theirs.cpu[i])
	}
	measure := fmt.Sprintf("an image of 1 GB over HTTP, %s, %d readers", filepath.Dir(path)+"/…", readers)
	b.add(measure, fmt.Sprintf("%.0f MB/s", median(ours.rate)), fmt.Sprintf("nginx %.0f MB/s", median(theirs.rate)),
		fmt.Sprintf("%.2f", median(rates)), ">= 0.95")
	b.add("the same, processor time", fmt.Sprintf("%.2f s a GB", median(ours.cpu)),
		fmt.Sprintf("nginx %.2f s a GB", median(theirs.cpu)), fmt.Sprintf("%.2f", median(work)), "<= 1.5")
	return nil
}

// add downloads a file by all readers.
func (d *download) add(ctx context.Context, p *process, path string) error {
	before, err := p.worked()
	if err != nil {
		return err
	}
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	sizes := make([]int64, readers)
	for i := range readers {
		group.Go(func() (err error) {
			sizes[i], err = discard(ctx, "http://"+p.addr+path)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := p.worked()
	if err != nil {
		return err
	}
	total := float64(sizes[0]) * readers
	d.rate = append(d.rate, total/1e6/took.Seconds())
	d.cpu = append(d.cpu, (after-before).Seconds()/(total/1e9))
	return nil
}

// discard downloads a file, and returns its size.
func discard(ctx context.Context, url string) (size int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", url, resp.Status)
	}
	for buffer := make([]byte, 256<<10); ; {
		n, err := resp.Body.Read(buffer)
		size += int64(n)
		switch {
		case err == io.EOF && size == resp.ContentLength:
			return size, nil
		case err != nil:
			return size, fmt.Errorf("%s: %d of %d bytes: %w", url, size, resp.ContentLength, err)
		}
	}
}
