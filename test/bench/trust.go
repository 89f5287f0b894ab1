package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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
