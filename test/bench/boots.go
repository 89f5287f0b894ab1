package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"
)

const (
	// stormHosts boot in stormTime.
	stormHosts = 10_000
	stormTime  = 5 * time.Second
	// fleetHosts boot again and again.
	fleetHosts = 4_000
)

// booter makes hosts that boot their image as a boot mode has it.
func booter(mode string) func(i int) []byte {
	return func(i int) []byte {
		return object("BareMetalHost", fmt.Sprintf("host-%06d", i), map[string]any{
			"bootMACAddress": macOf(i), "ip": bootAddress(i), "image": "router", "bootMode": mode,
		})
	}
}

func bootAddress(i int) string { return fmt.Sprintf("10.1.%d.%d", i>>8&255, i&255) }

// booters starts a server with hosts, which takes loopback for a proxy: what names
// a host in X-Forwarded-For is that machine, what does not is an operator. The hosts boot
// their image every time or, in a namespace that is given, until they are provisioned.
func (b *bench) booters(ctx context.Context, data string, hosts int, bench []byte, args ...string) (*process, error) {
	args = append([]string{"--trusted-proxies", "127.0.0.0/8", "--log-level", "warn"}, args...)
	p, err := b.glowplug(ctx, data, args...)
	if err != nil {
		return nil, err
	}
	mode := "forever"
	if bench != nil {
		mode = "once"
		url := "http://" + p.admin + "/api/v1/namespaces"
		if err := send(ctx, http.MethodPost, url, bench, http.StatusCreated); err != nil {
			p.stop()
			return nil, err
		}
	}
	namespace := "http://" + p.admin + "/api/v1/namespaces/bench/"
	image := object("ISCSICdrom", "router", map[string]any{"external": map[string]any{"portal": "192.168.10.1",
		"iqn": "iqn.2000-02.com.mikrotik:live"}})
	err = send(ctx, http.MethodPost, namespace+"iscsicdroms", image, http.StatusCreated)
	if err == nil {
		err = send(ctx, http.MethodPost, namespace+"ignitionconfigs", object("IgnitionConfig", "all", map[string]any{
			"type": "ignition", "format": "butane", "config": butane("host"), "selector": map[string]any{"default": true},
		}), http.StatusCreated)
	}
	if err == nil {
		err = create(ctx, p.admin, "baremetalhosts", hosts, booter(mode))
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// boots measures what writing down the states of hosts takes, and lists many boots.
func (b *bench) boots(ctx context.Context) error {
	err := goBench(ctx, "^BenchmarkList$", "./internal/store/boots", func(name string, ns float64, allocations string) {
		b.add("1,000,000 boots, "+name, fmt.Sprintf("%.0f ms", ns/1e6), "-", allocations+" allocations",
			"<= 300 ms, <= 1500 bytes on disk")
	})
	if err != nil {
		return err
	}
	if err := b.storm(ctx); err != nil {
		return err
	}
	return b.stateWrites(ctx)
}

// storm boots many hosts at an even rate, each with its script, its config and its
// boot-complete, and waits until all that they did is durable.
func (b *bench) storm(ctx context.Context) error {
	p, err := b.booters(ctx, "storm", stormHosts, nil)
	if err != nil {
		return err
	}
	defer p.stop()
	began := time.Now()
	var booting sync.WaitGroup
	var mu sync.Mutex
	var first error
	var slowest time.Duration
	for i := range stormHosts {
		time.Sleep(time.Until(began.Add(stormTime * time.Duration(i) / stormHosts)))
		booting.Go(func() {
			start := time.Now()
			err := b.bootOnce(ctx, p.addr, i)
			mu.Lock()
			defer mu.Unlock()
			if slowest = max(slowest, time.Since(start)); first == nil {
				first = err
			}
		})
	}
	booting.Wait()
	if first != nil {
		return first
	}
	took := time.Since(began)
	durable, err := p.settled(ctx, "record")
	if err != nil {
		return err
	}
	followed, err := p.settled(ctx, "state")
	if err != nil {
		return err
	}
	b.add(fmt.Sprintf("hosts' states durable after a storm of %d boots in %.1f s", stormHosts, took.Seconds()),
		fmt.Sprintf("%.2f s after the last, in every status after %.1f s; the slowest boot answered in %.2f s",
			durable.Seconds(), (durable+followed).Seconds(), slowest.Seconds()),
		"-", "-", "<= 5 s")
	return nil
}

// bootOnce is one boot of a host.
func (b *bench) bootOnce(ctx context.Context, addr string, i int) error {
	for _, step := range []struct{ method, path string }{
		{http.MethodGet, "/ipxe"}, {http.MethodGet, "/api/v1/ignition"}, {http.MethodPost, "/api/v1/boot-complete"},
	} {
		req, err := http.NewRequestWithContext(ctx, step.method, "http://"+addr+step.path, nil)
		if err != nil {
			return err
		}
		req.Header.Set("X-Forwarded-For", bootAddress(i))
		if err := perform(req, http.StatusOK); err != nil {
			return err
		}
	}
	return nil
}

var waiting = regexp.MustCompile(`(?m)^glowplug_journal_pending\{kind="(\w+)"\} (\S+)$`)

// settled waits until nothing of a kind waits to be written any more, and tells how
// long that took.
func (p *process) settled(ctx context.Context, kind string) (time.Duration, error) {
	began := time.Now()
	for time.Since(began) < 5*time.Minute {
		page, err := fetch(ctx, "http://"+p.addr+"/metrics")
		if err != nil {
			return 0, err
		}
		for _, m := range waiting.FindAllStringSubmatch(string(page), -1) {
			if left, err := strconv.ParseFloat(m[2], 64); m[1] == kind && err == nil && left == 0 {
				return time.Since(began), nil
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 0, fmt.Errorf("after %v states of hosts still wait", time.Since(began).Round(time.Second))
}

// stateWrites compares boots of machines, each of which is given its script and its
// config and is written down twice, with an operator's requests for the same, which
// are not. Two servers answer them in turn, each while the other is paused: statuses
// and events are written for a while after the boots.
func (b *bench) stateWrites(ctx context.Context) error {
	servers := map[string]*process{}
	// To an operator's requests this header says nothing; it makes them as long.
	for name, header := range map[string]string{"machine": "X-Forwarded-For", "operator": "X-Operator-For"} {
		p, err := b.booters(ctx, "boots-"+name, fleetHosts, nil)
		if err != nil {
			return err
		}
		defer p.stop()
		p.claims = name == "operator" // who asks as each of the machines
		p.script, err = b.bootScript(name+".lua", header)
		if err == nil {
			err = p.pause()
		}
		if err != nil {
			return err
		}
		servers[name] = p
	}
	rate := func(p *process) (float64, error) { return b.wrk(ctx, p, nil) }
	var with, without, ratios []float64
	for range b.rounds {
		ours, err := servers["machine"].alone(rate)
		if err != nil {
			return err
		}
		none, err := servers["operator"].alone(rate)
		if err != nil {
			return err
		}
		with, without, ratios = append(with, ours/2), append(without, none/2), append(ratios, ours/none)
	}
	b.add("boots/s with state writes: script and config", fmt.Sprintf("%.0f/s", median(with)),
		fmt.Sprintf("the same for an operator, which writes none, %.0f/s", median(without)), fmt.Sprintf("%.2f",
			median(ratios)), ">= 0.95")
	return nil
}

// bootScript makes the requests of hosts in turn: the script, then the config. The
// header has the address of the host.
func (b *bench) bootScript(name, header string) (string, error) {
	lua := fmt.Sprintf(`local n, config = 0, true
local headers = {}
request = function()
  config = not config
  if not config then n = (n + 1237) %% %d end
  headers[%q] = string.format('10.1.%%d.%%d', math.floor(n / 256), n %% 256)
  local path = config and '/api/v1/ignition' or '/ipxe'
  return wrk.format('GET', string.format('%%s?mac=52:54:00:00:%%02x:%%02x', path, math.floor(n / 256), n %% 256), headers)
end
`, fleetHosts, header)
	file := filepath.Join(b.dir, name)
	return file, os.WriteFile(file, []byte(lua), 0o644)
}
