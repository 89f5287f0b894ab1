package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// inParallel is the number of machines that boot in parallel in the other benches too. With so few, the server
	// spends part of its time waiting until a boot-complete is durable.
	inParallel = 16
	// inStorm is a number of machines in parallel with which the server is busy all the time.
	inStorm = 128
	// stormRounds is the number of rounds of a storm for each round of other comparisons. In a round each of the
	// fleetHosts boots once, which takes two seconds in all.
	stormRounds = 3
	// slice is how long a server runs until the next has its turn: much less than the time in which the speed of a
	// shared machine changes.
	slice = 50 * time.Millisecond
	// catchUp is how long a server needs for what it missed during a pause and for writes that wait.
	catchUp = 2 * time.Second
)

// protection are the annotations of a namespace whose hosts have windows, counts and tokens.
var protection = map[string]string{
	"glowplug.dev/provisioning-token":       "true",
	"glowplug.dev/provisioning-window":      "24h",
	"glowplug.dev/provisioning-max-fetches": "1000",
}

// protectedBoots compares boots of machines of two servers: with an audit trail, an encrypted store, windows,
// counts and tokens, and without. A third server, like the second, shows how exact the comparison is.
func (b *bench) protectedBoots(ctx context.Context) error {
	trail := filepath.Join(b.dir, "boots.audit")
	var fleets []*process
	for _, f := range []struct {
		data        string
		annotations map[string]string
		args        []string
	}{
		{"protected", protection, []string{"--encrypt", "--audit-log-path", trail}},
		{data: "unprotected"}, {data: "control"},
	} {
		p, err := b.fleet(ctx, f.data, f.annotations, f.args...)
		if err != nil {
			return err
		}
		defer p.stop()
		fleets = append(fleets, p)
	}
	if err := b.compareBoots(ctx, fleets, inParallel, b.rounds); err != nil {
		return err
	}
	return b.compareBoots(ctx, fleets, inStorm, stormRounds*b.rounds)
}

// compareBoots adds the ratios of the boots of the first and the third server, of which the first has the protection,
// to those of the second. machines is the number of machines that boot in parallel.
func (b *bench) compareBoots(ctx context.Context, fleets []*process, machines, rounds int) error {
	script, err := b.bootEach(machines)
	if err != nil {
		return err
	}
	// The times are added, and not those of a round compared: a server collects its garbage about once in a round.
	took, worked := make([]time.Duration, len(fleets)), make([]time.Duration, len(fleets))
	for round := range rounds {
		if err := arm(ctx, fleets, fmt.Sprintf("%d-%d", machines, round)); err != nil {
			return err
		}
		ran, used, err := bootInTurn(ctx, fleets, script, machines, round)
		if err != nil {
			return err
		}
		for i := range fleets {
			took[i] += ran[i]
			worked[i] += used[i]
		}
	}
	boots := float64(fleetHosts * rounds)
	each := func(i int) string {
		return fmt.Sprintf("%.0f/s, %.0f µs of CPU each", boots/took[i].Seconds(), worked[i].Seconds()*1e6/boots)
	}
	ratio := func(i int) string { return fmt.Sprintf("%.3f", took[1].Seconds()/took[i].Seconds()) }
	measure := fmt.Sprintf("boots/s with token, window, encryption and audit: script, config and boot-complete, %d "+
		"machines in parallel", machines)
	b.add(measure, each(0), "without "+each(1), ratio(0), ">= 0.97")
	b.add("the same of two servers without them", each(2), each(1), ratio(2), "how exact the ratio is")
	return nil
}

// arm gives each host of some servers a new value of its annotation, and pauses the servers once they have had time
// for the writes that follow. All do this at the same time: what a server has not read for some seconds, its store
// has to read from the disk again.
func arm(ctx context.Context, fleets []*process, value string) error {
	for _, p := range fleets {
		if err := p.resume(); err != nil {
			return err
		}
	}
	client.CloseIdleConnections() // of before the pause, which the servers close now
	patch := fmt.Appendf(nil, `{"metadata": {"annotations": {"glowplug.dev/rearm": %q}}}`, value)
	n := len(fleets)
	err := parallel(n*fleetHosts, func(i int) error {
		url := fmt.Sprintf("http://%s/api/v1/namespaces/bench/baremetalhosts/host-%06d", fleets[i%n].admin, i/n)
		return send(ctx, http.MethodPatch, url, patch, http.StatusOK)
	})
	for _, p := range fleets {
		for _, kind := range []string{"record", "state"} {
			if err == nil {
				_, err = p.settled(ctx, kind)
			}
		}
	}
	time.Sleep(catchUp)
	for _, p := range fleets {
		err = errors.Join(err, p.pause())
	}
	return err
}

// bootInTurn boots the hosts of some servers. machines is the number of hosts that boot in parallel, and turn the
// server that begins. Each server runs with its load for a slice of time while the others are paused. The results
// are the time and the CPU time that each server took.
func bootInTurn(ctx context.Context, fleets []*process, script string, machines, turn int) (
	took, worked []time.Duration, err error,
) {
	took, worked = make([]time.Duration, len(fleets)), make([]time.Duration, len(fleets))
	loads := make([]*bootLoad, len(fleets))
	for i, p := range fleets {
		before, err := p.worked()
		if err != nil {
			return nil, nil, err
		}
		worked[i] = -before
		if loads[i], err = bootAll(ctx, p, script, machines); err != nil {
			return nil, nil, err
		}
		defer loads[i].kill()
	}
	for left := len(fleets); left > 0; turn++ {
		i := turn % len(fleets)
		if loads[i].ended {
			continue
		}
		ran, err := loads[i].run(slice)
		if took[i] += ran; err != nil {
			return nil, nil, err
		}
		if loads[i].ended {
			left--
		}
	}
	for i, p := range fleets {
		after, err := p.worked()
		if err != nil {
			return nil, nil, err
		}
		worked[i] += after
	}
	return took, worked, nil
}

// bootLoad is a wrk that boots all hosts of a server once.
type bootLoad struct {
	server *process
	wrk    *process
	out    *strings.Builder
	// done is closed once wrk has ended, with failure.
	done    chan struct{}
	failure error
	ended   bool
}

// bootAll prepares the load of a server, and pauses it.
func bootAll(ctx context.Context, server *process, script string, machines int) (*bootLoad, error) {
	l := &bootLoad{server: server, out: &strings.Builder{}, done: make(chan struct{})}
	cmd := exec.CommandContext(ctx, "wrk", "-t1", "-c"+strconv.Itoa(machines), "-d5m", "-s", script,
		"http://"+server.addr)
	cmd.Stdout, cmd.Stderr = l.out, l.out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	l.wrk = &process{cmd: cmd}
	go func() {
		l.failure = cmd.Wait()
		close(l.done)
	}()
	return l, l.wrk.pause()
}

// run lets the server and its load run for a time, or until all hosts are provisioned, and says how long that was.
func (l *bootLoad) run(most time.Duration) (ran time.Duration, err error) {
	began := time.Now()
	if err := errors.Join(l.server.resume(), unlessDone(l.wrk.resume())); err != nil {
		return 0, err
	}
	select {
	case <-l.done:
		ran, l.ended = time.Since(began), true
		if err = l.failure; err != nil || !strings.Contains(l.out.String(), "all hosts are provisioned") {
			err = fmt.Errorf("wrk did not boot all hosts (%v):\n%s", err, l.out)
		}
	case <-time.After(most):
		err = unlessDone(l.wrk.pause())
		ran = time.Since(began)
	}
	return ran, errors.Join(err, l.server.pause())
}

// unlessDone leaves out the error that a process has ended, of which done tells.
func unlessDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

func (l *bootLoad) kill() {
	if !l.ended {
		_ = l.wrk.cmd.Process.Kill()
		<-l.done
	}
}

// fleet starts a server with hosts that boot with a script of their own, and pauses it.
func (b *bench) fleet(
	ctx context.Context, data string, annotations map[string]string, args ...string,
) (*process, error) {
	all := map[string]string{"glowplug.dev/ipxe": "echo {{.MAC}} token {{.Token}} end\n{{.Sanboot}}"}
	for key, value := range annotations {
		all[key] = value
	}
	namespace, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": "bench", "annotations": all}})
	if err != nil {
		return nil, err
	}
	p, err := b.booters(ctx, data, fleetHosts, namespace, args...)
	if err != nil {
		return nil, err
	}
	if err := p.pause(); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// bootEach writes the script of wrk in which each host boots once: it asks for its script, then for its config
// with the token in the script, and reports boot-complete. machines is the number of hosts that boot in parallel.
func (b *bench) bootEach(machines int) (file string, err error) {
	lua := fmt.Sprintf(`local n, last, configs, complete, ready, asked, headers = 0, %d, 0, 0, {}, {}, {}
local total = last - n - 2 -- wrk calls request once for nothing
local function ask(method, path, host, query)
  local high, low = math.floor(host / 256), host %% 256
  headers['X-Forwarded-For'] = string.format('10.1.%%d.%%d', high, low)
  return wrk.format(method, string.format('%%s?mac=52:54:00:00:%%02x:%%02x%%s', path, high, low, query), headers)
end
request = function()
  local next = table.remove(ready)
  if next then
    table.insert(asked, next[1])
    return ask('GET', '/api/v1/ignition', next[1], next[2])
  end
  -- An answer with a config does not say whose it is: a host is complete once many later ones have theirs.
  if #asked > 0 and (configs > complete + %d or configs >= total) then
    complete = complete + 1
    return ask('POST', '/api/v1/boot-complete', table.remove(asked, 1), '')
  end
  if n == last then return wrk.format('GET', '/boot.ipxe') end
  n = n + 1
  return ask('GET', '/ipxe', n - 1, '')
end
local ended = 0
response = function(status, headers, body)
  local high, low, token = body:match('echo 52:54:00:00:(%%x%%x):(%%x%%x) token (%%S*) ?end')
  if high then
    local query = #token == 32 and '&token=' .. token or ''
    table.insert(ready, {tonumber(high, 16) * 256 + tonumber(low, 16), query})
  elseif body:sub(1, 12) == '{"ignition":' then
    configs = configs + 1
  elseif body:find('is provisioned', 1, true) then
    ended = ended + 1
    if ended == total then
      print('all hosts are provisioned')
      io.stdout:flush()
      os.exit(0)
    end
  end
end
`, fleetHosts, 4*machines)
	file = filepath.Join(b.dir, "boots.lua")
	return file, os.WriteFile(file, []byte(lua), 0o644)
}
