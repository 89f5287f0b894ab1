package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"
)

const (
	imageMB = 512
	// The files that many sessions read.
	manyFiles, manyMB = 20, 64
)

// iscsi compares the target with Debian's tgt, which serves the same cached file
// as a disk: iscsi-perf reads blocks of 2048 bytes of ours and of 512 of tgt's.
func (b *bench) iscsi(ctx context.Context) error {
	for _, tool := range []string{"iscsi-perf", "tgtd", "xorriso"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not installed: apt-get install libiscsi-bin tgt xorriso", tool)
		}
	}
	images := filepath.Join(b.dir, "images")
	file := filepath.Join(images, "image.iso")
	if err := makeISO(ctx, b.dir, file, imageMB); err != nil {
		return err
	}
	portal, err := freeAddress()
	if err != nil {
		return err
	}
	p, err := b.glowplug(ctx, "iscsi", "--iso-dir", images, "--iscsi-listen", portal, "--iscsi-portal", portal)
	if err != nil {
		return err
	}
	defer p.stop()
	iqn, err := cdrom(ctx, p.admin, "image")
	if err != nil {
		return err
	}
	ours := fmt.Sprintf("iscsi://%s/%s/0", portal, iqn)
	var others []string
	for i := range manyFiles {
		name := fmt.Sprintf("image-%d", i)
		if err := makeISO(ctx, b.dir, filepath.Join(images, name+".iso"), manyMB); err != nil {
			return err
		}
		iqn, err := cdrom(ctx, p.admin, name)
		if err != nil {
			return err
		}
		others = append(others, fmt.Sprintf("iscsi://%s/%s/0", portal, iqn))
	}
	theirs, stop, err := b.tgt(ctx, file)
	if err != nil {
		return err
	}
	defer stop()
	for _, c := range []iscsiLoad{
		{64, 1, 0, ">= 1.0"}, {256, 1, 0, ">= 1.0"}, {64, 8, 0, ">= 0.7, aim 1.0"},
		{64, 1, 2, ">= 1.0"}, {64, 8, 2, ">= 1.0"},
	} {
		if err := b.compareISCSI(ctx, c, ours, theirs); err != nil {
			return err
		}
	}
	return b.sessions(ctx, p, others)
}

// iscsiLoad is a way to read from a target.
type iscsiLoad struct {
	size, depth int // KiB, requests in flight
	busy        int // loops that use the processor meanwhile
	target      string
}

// compareISCSI reads from both targets in turn.
func (b *bench) compareISCSI(ctx context.Context, load iscsiLoad, ours, theirs string) error {
	stop, err := busyLoops(ctx, load.busy)
	if err != nil {
		return err
	}
	defer stop()
	var mine, other, ratios []float64
	for range b.rounds {
		m, err := b.iscsiPerf(ctx, ours, load.size*1024/2048, load.depth)
		if err != nil {
			return err
		}
		t, err := b.iscsiPerf(ctx, theirs, load.size*1024/512, load.depth)
		if err != nil {
			return err
		}
		mine, other, ratios = append(mine, m), append(other, t), append(ratios, m/t)
	}
	name := fmt.Sprintf("iSCSI reads, %d KiB, queue depth %d", load.size, load.depth)
	if load.busy > 0 {
		name += fmt.Sprintf(", beside %d busy loops", load.busy)
	}
	b.add(name, fmt.Sprintf("%.0f MB/s", median(mine)), fmt.Sprintf("tgt %.0f MB/s", median(other)),
		fmt.Sprintf("%.2f", median(ratios)), load.target)
	return nil
}

// busyLoops starts processes that use as much of the processor as they get.
func busyLoops(ctx context.Context, n int) (stop func(), err error) {
	ctx, stop = context.WithCancel(ctx) // kills them
	for range n {
		loop := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		if err := loop.Start(); err != nil {
			stop()
			return nil, err
		}
		go func() { _ = loop.Wait() }()
	}
	return stop, nil
}

// sessions compares 200 sessions at once, on different files, with the best of
// one of them.
func (b *bench) sessions(ctx context.Context, p *process, urls []string) error {
	best := 0.0
	for i := range b.rounds {
		rate, err := b.iscsiPerf(ctx, urls[i%len(urls)], 32, 8)
		if err != nil {
			return err
		}
		best = max(best, rate)
	}
	const sessions = 200
	var mu sync.Mutex
	var group sync.WaitGroup
	total := 0.0
	var first error
	for i := range sessions {
		group.Go(func() {
			rate, err := b.iscsiPerf(ctx, urls[i%len(urls)], 32, 1)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = err
			}
			total += rate
		})
	}
	group.Wait()
	if first != nil {
		return first
	}
	rss, err := p.resident()
	if err != nil {
		return err
	}
	b.add(fmt.Sprintf("200 iSCSI sessions at once, on %d files", len(urls)), fmt.Sprintf("%.0f MB/s", total),
		fmt.Sprintf("one session's best %.0f MB/s", best),
		fmt.Sprintf("%.2f", total/best), ">= 0.9")
	b.add("resident memory after 200 iSCSI sessions", fmt.Sprintf("%.0f MB", rss), "-", "-", "< 150 MB")
	return nil
}

var perfRate = regexp.MustCompile(`iops average \d+ \((\d+) MB/s\)`)

// iscsiPerf returns the MB/s of reading a target in order.
func (b *bench) iscsiPerf(ctx context.Context, url string, blocks, depth int) (float64, error) {
	seconds := int(b.duration.Seconds())
	ctx, cancel := context.WithTimeout(ctx, b.duration+30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "iscsi-perf", "-b", strconv.Itoa(blocks), "-m", strconv.Itoa(depth), "-t",
		strconv.Itoa(seconds), url).CombinedOutput()
	rates := perfRate.FindAllSubmatch(out, -1)
	if err != nil || len(rates) == 0 {
		return 0, fmt.Errorf("iscsi-perf %s: %v\n%.500s", url, err, out)
	}
	return strconv.ParseFloat(string(rates[len(rates)-1][1]), 64)
}

// makeISO builds an ISO that holds one file of so many MB.
func makeISO(ctx context.Context, scratch, file string, mb int) error {
	content := filepath.Join(scratch, "content")
	if err := os.MkdirAll(content, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(content)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * 7)
	}
	f, err := os.Create(filepath.Join(content, "data"))
	if err != nil {
		return err
	}
	for range mb {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "xorriso", "-as", "mkisofs", "-quiet", "-V", "BENCH", "-o", file,
		content).CombinedOutput()
	if err != nil {
		return fmt.Errorf("xorriso: %w\n%s", err, out)
	}
	return nil
}

// cdrom makes an ISCSICdrom of the file NAME.iso, waits until it is ready and
// gives its IQN.
func cdrom(ctx context.Context, addr, name string) (string, error) {
	list := "http://" + addr + "/api/v1/namespaces/bench/iscsicdroms"
	if err := send(ctx, http.MethodPost, list, object("ISCSICdrom", name, map[string]any{"isoFile": name + ".iso"}),
		http.StatusCreated); err != nil {
		return "", err
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		data, err := fetch(ctx, list+"/"+name)
		if err != nil {
			return "", err
		}
		var got struct {
			Status struct {
				Phase, TargetIQN, ErrorMessage string
			}
		}
		if err := json.Unmarshal(data, &got); err != nil {
			return "", err
		}
		switch got.Status.Phase {
		case "Ready":
			return got.Status.TargetIQN, nil
		case "Error":
			return "", fmt.Errorf("the image: %s", got.Status.ErrorMessage)
		}
	}
	return "", fmt.Errorf("the image was not ready after a minute")
}

// tgt serves a file as a disk with Debian's target, and gives its URL.
func (b *bench) tgt(ctx context.Context, file string) (url string, stop func(), err error) {
	portal, err := freeAddress()
	if err != nil {
		return "", nil, err
	}
	const control = "173" // of this daemon alone
	daemon := exec.CommandContext(ctx, "tgtd", "-f", "-C", control, "--iscsi", "portal="+portal)
	if err := daemon.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _ = daemon.Process.Kill(); _ = daemon.Wait() }
	for range 100 {
		if c, err := net.Dial("tcp", portal); err == nil {
			c.Close()
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	const iqn = "iqn.2026-11.bench:tgt"
	for _, args := range [][]string{
		{"--op", "new", "--mode", "target", "--tid", "1", "-T", iqn},
		{"--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", file},
		{"--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL"},
	} {
		if out, err := exec.CommandContext(ctx, "tgtadm", append([]string{"-C", control, "--lld", "iscsi"},
			args...)...).CombinedOutput(); err != nil {
			stop()
			return "", nil, fmt.Errorf("tgtadm: %w\n%s", err, out)
		}
	}
	return "iscsi://" + portal + "/" + iqn + "/1", stop, nil
}
