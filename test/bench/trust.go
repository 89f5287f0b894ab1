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
	"regexp"
	"strconv"
	"strings"
	"time"
)

// trust compares a server with all its protection of boots and of the API with one without.
func (b *bench) trust(ctx context.Context) error {
	if err := b.protectedBoots(ctx); err != nil {
		return err
	}
	return b.grantedWrites(ctx)
}

// protection are the annotations of a namespace whose hosts have windows, counts and tokens.
var protection = map[string]string{
	"glowplug.dev/provisioning-token":       "true",
	"glowplug.dev/provisioning-window":      "24h",
	"glowplug.dev/provisioning-max-fetches": "1000",
}

// protectedBoots boots machines of two servers in turn, each while the other is paused: with an audit trail, an
// encrypted store, windows, counts and tokens, and without.
func (b *bench) protectedBoots(ctx context.Context) error {
	trail := filepath.Join(b.dir, "boots.audit")
	with, err := b.fleet(ctx, "protected", protection, "--encrypt", "--audit-log-path", trail)
	if err != nil {
		return err
	}
	defer with.stop()
	without, err := b.fleet(ctx, "unprotected", nil)
	if err != nil {
		return err
	}
	defer without.stop()
	next := map[*process]int{}
	measure := fmt.Sprintf("boots/s with token, window, encryption and audit: script, config and boot-complete, %d "+
		"machines in parallel", bootingAtOnce)
	return b.takeTurns(measure, with, without, ">= 0.97", bootRounds*b.rounds, newHosts,
		func(p *process) (rate float64, err error) {
			if p.script, err = b.firstBoots(next[p]); err != nil {
				return 0, err
			}
			next[p] += newHosts
			return b.bootsPerSecond(ctx, p)
		})
}

// takeTurns measures two servers that are paused, one after the other, and adds the median of the ratios, and the
// CPU time of each of n operations in a round.
func (b *bench) takeTurns(
	measure string, ours, against *process, target string, rounds, n int, rate func(*process) (float64, error),
) error {
	alone := func(p *process) (measured float64, work time.Duration, err error) {
		before, err := p.worked()
		if err != nil {
			return 0, 0, err
		}
		measured, err = p.alone(rate)
		after, failure := p.worked()
		return measured, after - before, errors.Join(err, failure)
	}
	var with, without, ratios, work, less []float64
	for range rounds {
		mine, worked, err := alone(ours)
		if err != nil {
			return err
		}
		other, workedOther, err := alone(against)
		if err != nil {
			return err
		}
		with, without, ratios = append(with, mine), append(without, other), append(ratios, mine/other)
		work, less = append(work, worked.Seconds()*1e6/float64(n)), append(less, workedOther.Seconds()*1e6/float64(n))
	}
	b.add(measure, fmt.Sprintf("%.0f/s, %.0f µs of CPU each", median(with), median(work)),
		fmt.Sprintf("without %.0f/s, %.0f µs of CPU each", median(without), median(less)),
		fmt.Sprintf("%.2f", median(ratios)), target)
	return nil
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
	p, err := b.booters(ctx, data, newHosts*bootRounds*b.rounds, namespace, args...)
	if err != nil {
		return nil, err
	}
	if _, err = p.rested(); err == nil { // conditions and events come later than the answers
		err = p.pause()
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

var bootRate = regexp.MustCompile(`Boots/sec: ([0-9.]+)`)

// bootsPerSecond runs the script of a server, which ends before wrk does.
func (b *bench) bootsPerSecond(ctx context.Context, p *process) (float64, error) {
	args := []string{"-t1", "-c" + strconv.Itoa(bootingAtOnce), "-d10s", "-s", p.script, "http://" + p.addr}
	out, err := exec.CommandContext(ctx, "wrk", args...).CombinedOutput()
	m := bootRate.FindSubmatch(out)
	if err != nil || m == nil || wrkErrors.Match(out) {
		return 0, fmt.Errorf("wrk did not boot all hosts (%v):\n%s", err, out)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

const (
	// newHosts boot for the first time in one round, of which there are bootRounds times as many as in other
	// comparisons: one takes about a second.
	newHosts   = 5_000
	bootRounds = 2
	// bootingAtOnce machines boot in parallel: with few of them, most of the time is the wait until that they are
	// provisioned is durable.
	bootingAtOnce = 128
)

// firstBoots makes the requests of hosts that boot for the first time, from one on: the script, then the config
// with the token in the script, and boot-complete.
func (b *bench) firstBoots(from int) (file string, err error) {
	lua := fmt.Sprintf(`local ffi = require('ffi')
ffi.cdef('typedef struct { long s; long ns; } instant; int clock_gettime(int, instant *);')
local function now()
  local t = ffi.new('instant')
  ffi.C.clock_gettime(1, t)
  return tonumber(t.s) + tonumber(t.ns) / 1e9
end
local began
local n, last, configs, complete, ready, asked, headers = %d, %d, 0, 0, {}, {}, {}
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
  if #asked > 0 and (configs > complete + %[3]d or configs >= total) then
    complete = complete + 1
    return ask('POST', '/api/v1/boot-complete', table.remove(asked, 1), '')
  end
  if n == last then return wrk.format('GET', '/boot.ipxe') end
  began = began or now()
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
      print(string.format('Boots/sec: %%.1f', total / (now() - began)))
      wrk.thread:stop()
    end
  end
end
`, from, from+newHosts, 4*bootingAtOnce)
	file = filepath.Join(b.dir, "boots.lua")
	return file, os.WriteFile(file, []byte(lua), 0o644)
}

// grantedWrites creates hosts as a ServiceAccount with a role and an audit trail, and as an administrator
// without one.
func (b *bench) grantedWrites(ctx context.Context) error {
	with, err := b.glowplug(ctx, "granted", "--audit-log-path", filepath.Join(b.dir, "writes.audit"))
	if err != nil {
		return err
	}
	defer with.stop()
	without, err := b.glowplug(ctx, "administered")
	if err != nil {
		return err
	}
	defer without.stop()
	tokens := map[*process]string{}
	for p, data := range map[*process]string{with: "granted", without: "administered"} {
		kubeconfig := filepath.Join(b.dir, data, "admin.kubeconfig")
		if tokens[p], err = tokenIn(kubeconfig); err != nil {
			return err
		}
		if err := create(ctx, p.admin, "baremetalhosts", 1, host); err != nil {
			return err
		}
		if p == with {
			out, err := exec.CommandContext(ctx, b.program, "token", "create", "writer", "--role", "edit", "-n",
				"bench", "--kubeconfig", kubeconfig).Output()
			if err != nil {
				return fmt.Errorf("glowplug token create: %w", err)
			}
			lines := strings.Fields(string(out))
			tokens[p] = lines[len(lines)-1]
		}
		if err := p.pause(); err != nil {
			return err
		}
	}
	const n = 4000
	next := map[*process]int{with: 1, without: 1}
	return b.takeTurns("BareMetalHost creates/s with a role and an audit trail, 16 writers", with, without, ">= 0.90",
		b.rounds, n, func(p *process) (float64, error) {
			offset := next[p]
			next[p] += n
			return timed(n, func() error {
				return parallel(n, func(i int) error {
					url := "http://" + p.addr + "/api/v1/namespaces/bench/baremetalhosts"
					return sendAs(ctx, tokens[p], url, host(offset+i))
				})
			})
		})
}

// tokenIn returns the token in a kubeconfig.
func tokenIn(kubeconfig string) (string, error) {
	content, err := os.ReadFile(kubeconfig)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(content)) {
		if token, ok := strings.CutPrefix(strings.TrimSpace(line), "token: "); ok {
			return token, nil
		}
	}
	return "", fmt.Errorf("there is no token in %s", kubeconfig)
}

// sendAs creates an object with a bearer token.
func sendAs(ctx context.Context, token, url string, body []byte) error {
	req, err := newPost(ctx, url, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return perform(req, http.StatusCreated)
}
