package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// serving compares the rate of /api/v1/ignition with a bare handler, with a
// large store and with nginx.
func (b *bench) serving(ctx context.Context) error {
	small, err := b.fill(ctx, "small", 1, 1)
	if err != nil {
		return err
	}
	defer small.stop()
	body := filepath.Join(b.dir, "body")
	if err := save(ctx, "http://"+small.addr+"/api/v1/ignition", body); err != nil {
		return err
	}
	bare, err := b.bare(ctx, body)
	if err != nil {
		return err
	}
	defer bare.stop()
	if _, err := b.compare(ctx, "keep-alive requests/s, as shipped", small, "bare handler", bare, ">= 0.80"); err != nil {
		return err
	}
	if _, err := b.compare(ctx, "one request a connection, as shipped", small, "bare handler", bare, ">= 0.92",
		"Connection: close"); err != nil {
		return err
	}
	static, err := b.nginx(ctx, body)
	if err != nil {
		return err
	}
	defer static.stop()
	if _, err := b.compare(ctx, "one request a connection, as shipped", small, "nginx, the bytes as a file", static,
		"beside it", "Connection: close"); err != nil {
		return err
	}
	quiet, err := b.fill(ctx, "quiet", 1, 1, "--log-level=warn")
	if err != nil {
		return err
	}
	defer quiet.stop()
	if _, err := b.compare(ctx, "keep-alive requests/s, --log-level=warn", quiet, "bare handler", bare,
		">= 0.90"); err != nil {
		return err
	}
	return b.large(ctx, small)
}

// negotiated compares requests that are answered with a conversion with plain ones
// of the same config: no header, and one that names the config's own version.
func (b *bench) negotiated(ctx context.Context) error {
	p, err := b.fill(ctx, "negotiated", 1, 1)
	if err != nil {
		return err
	}
	defer p.stop()
	const own, other = "3.4.0", "3.1.0"
	accept := func(version string) string {
		return "application/vnd.coreos.ignition+json;version=" + version + ", */*;q=0.1"
	}
	for _, version := range []string{own, other} {
		body, err := fetch(ctx, "http://"+p.addr+"/api/v1/ignition", "Accept", accept(version))
		if err != nil {
			return err
		}
		if !strings.Contains(string(body), `"version":"`+version+`"`) {
			return fmt.Errorf("a client of spec %s is given %.60q", version, body)
		}
	}
	negotiated := load{p, []string{"Accept: " + accept(other)}}
	if _, err := b.alternate(ctx, "keep-alive requests/s, negotiated: spec "+own+" given as "+other, negotiated, "plain",
		load{p, nil}, ">= 0.90"); err != nil {
		return err
	}
	_, err = b.alternate(ctx, "keep-alive requests/s, negotiated: spec "+own+" given as "+other, negotiated,
		"as it is, to a client of "+own, load{p, []string{"Accept: " + accept(own)}}, ">= 0.90")
	return err
}

// load is what wrk asks of a server.
type load struct {
	server  *process
	headers []string
}

// compare alternates between two servers and adds the median of the ratios.
func (b *bench) compare(ctx context.Context, measure string, ours *process, name string, against *process,
	target string, headers ...string) (float64, error) {
	return b.alternate(ctx, measure, load{ours, headers}, name, load{against, headers}, target)
}

// alternate is compare for two loads.
func (b *bench) alternate(ctx context.Context, measure string, ours load, name string, against load,
	target string) (float64, error) {
	var a, o, ratios []float64
	for range b.rounds {
		mine, err := b.wrk(ctx, ours.server, ours.headers)
		if err != nil {
			return 0, err
		}
		other, err := b.wrk(ctx, against.server, against.headers)
		if err != nil {
			return 0, err
		}
		o, a, ratios = append(o, mine), append(a, other), append(ratios, mine/other)
	}
	ratio := median(ratios)
	b.add(measure, fmt.Sprintf("%.0f/s", median(o)), fmt.Sprintf("%s %.0f/s", name, median(a)), fmt.Sprintf("%.2f", ratio),
		target)
	return ratio, nil
}

var (
	wrkRate   = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	wrkErrors = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
)

// wrk returns the requests per second of a server.
func (b *bench) wrk(ctx context.Context, p *process, headers []string) (float64, error) {
	path := "/api/v1/ignition"
	if filepath.Base(p.cmd.Path) == "nginx" {
		path = "/config"
	}
	addr := p.addr
	if p.claims {
		addr = p.admin // where they are believed
	}
	args := []string{"-t1", "-c16", "-d" + strconv.Itoa(int(b.duration.Seconds())) + "s", "http://" + addr + path}
	if p.script != "" {
		args = append([]string{"-s", p.script}, args...)
	}
	for _, h := range headers {
		args = append([]string{"-H", h}, args...)
	}
	out, err := exec.CommandContext(ctx, "wrk", args...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	if bad := wrkErrors.FindSubmatch(out); bad != nil {
		return 0, fmt.Errorf("wrk: %s answers of %s were errors", bad[1], p.addr)
	}
	m := wrkRate.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("wrk printed no rate:\n%s", out)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

// decision runs the Go benchmark of the decision for its allocations.
func (b *bench) decision(ctx context.Context) error {
	return goBench(ctx, "^BenchmarkDecide", "./internal/domain/decide", func(name string, ns float64, allocations string) {
		b.add("the decision, "+name, fmt.Sprintf("%.0f ns", ns), "-", allocations+" allocations",
			"<= 2 allocations for a known host")
	})
}

// plan runs the Go benchmark of a plan.
func (b *bench) plan(ctx context.Context) error {
	return goBench(ctx, "^BenchmarkPlan", "./internal/domain/plan", func(_ string, ns float64, allocations string) {
		b.add("plan of a config with 200 files and 20 partitions", fmt.Sprintf("%.2f ms", ns/1e6), "-",
			allocations+" allocations", "<= 5 ms")
	})
}

var benchLine = regexp.MustCompile(
	`(?m)^Benchmark(\S+)\s+\d+\s+([0-9.]+) ns/op(?:\s+[0-9.]+ hosts)?\s+\d+ B/op\s+(\d+) allocs/op`)

// goBench runs benchmarks of a package, and gives the time and the allocations of each.
func goBench(ctx context.Context, pattern, pkg string, add func(name string, ns float64, allocations string)) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", pattern, "-benchmem", "-benchtime", "1s", pkg)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	for _, m := range benchLine.FindAllStringSubmatch(string(out), -1) {
		ns, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return err
		}
		add(m[1], ns, m[3])
	}
	return nil
}

func save(ctx context.Context, url, file string) error {
	data, err := fetch(ctx, url)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
