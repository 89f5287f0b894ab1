// Command bench measures what the performance table of the project asks for,
// each figure side by side with what it is compared with, in one run, and
// writes docs/internals/benchmarks.md. make bench runs it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// row is one line of the table.
type row struct {
	measure, ours, against, ratio, target string
}

// bench is one run: where things are and what was found.
type bench struct {
	dir      string // scratch
	program  string // the glowplug binary
	self     string // this binary, for its bare handler
	duration time.Duration
	rounds   int
	hosts    int
	configs  int
	only     string // the part that is measured; "": all
	rows     []row
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	b := &bench{}
	bare := flag.String("bare", "",
		"serve FILE on this address with a bare net/http handler (used by the benchmark itself)")
	file := flag.String("file", "", "the FILE of --bare")
	output := flag.String("o", "", "write the page here")
	flag.StringVar(&b.program, "program", "./glowplug", "the binary to measure")
	flag.DurationVar(&b.duration, "duration", 3*time.Second, "length of one load measurement")
	flag.IntVar(&b.rounds, "rounds", 5, "alternations of a comparison; the median counts")
	flag.IntVar(&b.hosts, "hosts", 100_000, "hosts in the large store")
	flag.StringVar(&b.only, "only", "", "run this part alone: decision, serving, negotiated, writing, growth, boots, trust, "+
		"layers, plan, impact, templates, arguments, iscsi, images, network, console, backup or failover")
	flag.IntVar(&b.configs, "configs", 10_000, "configs in the large store")
	isInside := flag.Bool("in-namespace", false, "measure the network boot here (used by the benchmark itself)")
	client := flag.String("client", "", "be the clients with this role (used by the benchmark itself)")
	flag.Parse()

	if *bare != "" {
		log.Fatal(serveBare(*bare, *file))
	}
	var err error
	if b.self, err = os.Executable(); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	run := func() error { return b.run(ctx, *output) }
	switch {
	case *client != "":
		run = func() error { return runClient(*client) }
	case *isInside:
		run = func() error { return b.inNamespace(ctx) }
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func (b *bench) run(ctx context.Context, output string) error {
	for _, tool := range []string{"wrk", "nginx"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not installed: apt-get install wrk nginx-light", tool)
		}
	}
	var err error
	if b.program, err = filepath.Abs(b.program); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "glowplug-bench"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)

	var failed error
	for _, part := range []struct {
		name    string
		measure func(context.Context) error
	}{{"decision", b.decision}, {"serving", b.serving}, {"negotiated", b.negotiated}, {"writing", b.writing}, {"growth", b.growth},
		{"boots", b.boots}, {"trust", b.trust}, {"layers", b.layers}, {"plan", b.plan}, {"impact", b.impact},
		{"templates", b.templates},
		{"arguments", b.kernelArguments}, {"iscsi", b.iscsi}, {"images", b.images},
		{"network", func(ctx context.Context) error { return b.network(ctx, "network") }},
		{"console", b.console}, {"backup", b.backup},
		{"failover", func(ctx context.Context) error { return b.network(ctx, "failover") }}} {
		if b.only != "" && b.only != part.name {
			continue
		}
		if err := part.measure(ctx); err != nil {
			failed = errors.Join(failed, err)
			log.Print(err)
		}
	}
	page := b.page()
	fmt.Print(page)
	if output != "" && failed == nil {
		return os.WriteFile(output, append([]byte(page), sections(output)...), 0o644)
	}
	return failed
}

// sections returns what a page has behind its table, which was written by hand; nil: there is nothing.
func sections(page string) []byte {
	content, err := os.ReadFile(page)
	if err != nil {
		return nil
	}
	if i := bytes.Index(content, []byte("\n## ")); i >= 0 {
		return content[i:]
	}
	return nil
}

func (b *bench) add(measure, ours, against, ratio, target string) {
	b.rows = append(b.rows, row{measure, ours, against, ratio, target})
	log.Printf("%s: %s against %s: %s (%s)", measure, ours, against, ratio, target)
}

func (b *bench) page() string {
	var s strings.Builder
	fmt.Fprintf(&s, "# Benchmarks\n\nWritten by `make bench` on %s, %s. Each comparison was measured in one run, "+
		"alternating, %d times %s; the median ratio counts, and the added times of all rounds where boots are compared "+
		"with and without protection. Other machines give other absolute figures.\n\n",
		time.Now().UTC().Format(time.DateOnly), machine(), b.rounds, b.duration)
	s.WriteString("| measure | ours | against | ratio | to reach |\n|---|---|---|---|---|\n")
	for _, r := range b.rows {
		fmt.Fprintf(&s, "| %s | %s | %s | %s | %s |\n", r.measure, r.ours, r.against, r.ratio, r.target)
	}
	fmt.Fprintf(&s, "\nLoad: `wrk -t1 -c16` on loopback, a 5 KB config. The bare handler is a net/http server that "+
		"writes the same bytes and "+
		"content type and nothing else. iSCSI: libiscsi's iscsi-perf on loopback, a cached file of 512 MB. The large "+
		"store has %d hosts and %d configs.\n", b.hosts, b.configs)
	return s.String()
}

// machine says what the figures were measured on.
func machine() string {
	model := "unknown CPU"
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores of %s", cores(), model)
}
