package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// openPages is how many streams of changes are open: one page each.
	openPages = 200
	// shownChanges is how many changes are timed at each page.
	shownChanges = 20
	// consolePairs is how often the load is measured with and without pages.
	consolePairs = 10
)

// console measures how soon open pages of the console have a change, and what they cost the machines that boot.
func (b *bench) console(ctx context.Context) error {
	p, err := b.booters(ctx, "console", fleetHosts+2*shownChanges, nil)
	if err != nil {
		return err
	}
	defer p.stop()
	if p.script, err = b.bootScript("console.lua", "X-Forwarded-For"); err != nil {
		return err
	}
	open, err := openStreams(ctx, p)
	if err != nil {
		return err
	}
	calm, err := b.latency(ctx, p, open, fleetHosts)
	if err != nil {
		return err
	}
	load := make(chan error, 1)
	loading, endLoad := context.WithCancel(ctx)
	go func() { load <- b.loadUntil(loading, p) }()
	time.Sleep(3 * time.Second) // the storm has begun by then
	storm, err := b.latency(ctx, p, open, fleetHosts+shownChanges)
	endLoad()
	open.close()
	if err = errors.Join(err, <-load); err != nil {
		return err
	}
	b.add(fmt.Sprintf("console: a change at %d open pages, p99, calm", openPages), milliseconds(calm), "-", "-", "<= 300 ms")
	b.add(fmt.Sprintf("console: a change at %d open pages, p99, storm", openPages), milliseconds(storm), "-", "-",
		"<= 1500 ms")
	return b.consoleCost(ctx, p)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.0f ms", float64(d)/1e6) }

// loadUntil has machines boot until ctx ends.
func (b *bench) loadUntil(ctx context.Context, p *process) error {
	for ctx.Err() == nil {
		if _, err := b.wrk(ctx, p, nil); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// consoleCost compares the CPU time of the server for a request of a machine with and without open pages, in a storm.
func (b *bench) consoleCost(ctx context.Context, p *process) error {
	var with, without []float64
	for range consolePairs {
		open, err := openStreams(ctx, p)
		if err != nil {
			return err
		}
		watched, err := b.cost(ctx, p)
		open.close()
		if err != nil {
			return err
		}
		alone, err := b.cost(ctx, p)
		if err != nil {
			return err
		}
		with, without = append(with, watched), append(without, alone)
	}
	b.add(fmt.Sprintf("console: server CPU of a request of a boot with %d pages open, storm, %d pairs", openPages, consolePairs),
		fmt.Sprintf("%.0f us", median(with)), fmt.Sprintf("none open, %.0f us", median(without)),
		fmt.Sprintf("%.3f", medianRatio(with, without)), "<= 1.03")
	return nil
}

// cost is the CPU time of the server for one request under load, in microseconds.
func (b *bench) cost(ctx context.Context, p *process) (float64, error) {
	before, err := p.worked()
	if err != nil {
		return 0, err
	}
	rate, err := b.wrk(ctx, p, nil)
	if err != nil {
		return 0, err
	}
	after, err := p.worked()
	return float64((after - before).Microseconds()) / (rate * b.duration.Seconds()), err
}

// pages are open streams. Each tells of the frames that have the name of a host.
type pages struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	wanted []byte
	seen   chan time.Time
}

// openStreams opens the streams.
func openStreams(ctx context.Context, p *process) (*pages, error) {
	ctx, cancel := context.WithCancel(ctx)
	open := &pages{cancel: cancel, seen: make(chan time.Time, openPages)}
	client := &http.Client{Transport: &http.Transport{}}
	for range openPages {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+"/console/events/stream", nil)
		if err != nil {
			cancel()
			return nil, err
		}
		resp, err := client.Do(req)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("the stream is answered %s", resp.Status)
		}
		if err != nil {
			cancel()
			return nil, err
		}
		open.done.Go(func() {
			defer resp.Body.Close()
			open.read(bufio.NewReaderSize(resp.Body, 1<<20))
		})
	}
	return open, nil
}

// close closes the streams, and waits for their end.
func (o *pages) close() {
	o.cancel()
	o.done.Wait()
}

func (o *pages) read(stream *bufio.Reader) {
	for {
		line, err := stream.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
		o.mu.Lock()
		wanted := o.wanted
		o.mu.Unlock()
		if wanted != nil && bytes.HasPrefix(line, []byte("data:")) && bytes.Contains(line, wanted) {
			o.seen <- time.Now()
		}
	}
}

// latency is the 99th percentile, over all changes and pages, of the time from the request of a machine that changes
// its state to the frame at a page. The machines are those from first on, which the load does not have.
func (b *bench) latency(ctx context.Context, p *process, open *pages, first int) (time.Duration, error) {
	var all []time.Duration
	for i := range shownChanges {
		host := first + i
		name := fmt.Sprintf(`"host-%06d":"b`, host)
		open.mu.Lock()
		open.wanted = []byte(name)
		open.mu.Unlock()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet,
			"http://"+p.addr+"/ipxe?mac="+strings.ToLower(macOf(host)), nil)
		if err != nil {
			return 0, err
		}
		req.Header.Set("X-Forwarded-For", bootAddress(host))
		began := time.Now()
		if err := perform(req, http.StatusOK); err != nil {
			return 0, err
		}
		for range openPages {
			select {
			case at := <-open.seen:
				all = append(all, at.Sub(began))
			case <-time.After(20 * time.Second):
				return 0, fmt.Errorf("a page has not been told of %s within 20 s", name)
			}
		}
		open.mu.Lock()
		open.wanted = nil
		open.mu.Unlock()
		time.Sleep(150 * time.Millisecond)
		for len(open.seen) > 0 {
			<-open.seen // a second frame with the host
		}
	}
	slices.Sort(all)
	return all[len(all)*99/100], nil
}
