package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// impact runs the Go benchmark of an impact, and measures one on a server with a large store.
func (b *bench) impact(ctx context.Context) error {
	err := goBench(ctx, "^BenchmarkImpact", "./internal/domain/impact", func(name string, ns float64, allocations string) {
		b.add("100000 hosts and 10000 configs, "+name, fmt.Sprintf("%.1f ms", ns/1e6), "-", allocations+" allocations",
			"<= 1 s")
	})
	if err != nil {
		return err
	}
	p, err := b.fill(ctx, "impact", b.hosts, b.configs)
	if err != nil {
		return err
	}
	defer p.stop()
	return b.impacts(ctx, p)
}

// impacts measures the impact of one config on a server with a large store, and how many requests
// of machines are answered meanwhile.
func (b *bench) impacts(ctx context.Context, p *process) error {
	var changed map[string]any
	if err := json.Unmarshal(config(7), &changed); err != nil {
		return err
	}
	spec := changed["spec"].(map[string]any)
	spec["config"] = `{"ignition":{"version":"3.4.0"}}`
	body, err := json.Marshal(map[string]any{"apply": []any{changed}})
	if err != nil {
		return err
	}
	ask := func(ctx context.Context) error {
		return send(ctx, http.MethodPost, "http://"+p.admin+"/api/v1/impact", body, http.StatusOK)
	}
	var taken []float64
	for range 20 {
		start := time.Now()
		if err := ask(ctx); err != nil {
			return err
		}
		taken = append(taken, float64(time.Since(start).Microseconds())/1000)
	}
	slices.Sort(taken)
	b.add(fmt.Sprintf("glowplug diff of one config, %d hosts and %d configs", b.hosts, b.configs),
		fmt.Sprintf("p50 %.0f ms, slowest %.0f ms", taken[len(taken)/2], taken[len(taken)-1]), "-", "-", "<= 1 s")
	var with, without, ratios []float64
	for range b.rounds {
		ours, err := b.whileAsking(ctx, p, ask)
		if err != nil {
			return err
		}
		alone, err := b.wrk(ctx, p, nil)
		if err != nil {
			return err
		}
		with, without, ratios = append(with, ours), append(without, alone), append(ratios, ours/alone)
	}
	b.add("keep-alive requests/s of machines while impacts are computed, one after the other",
		fmt.Sprintf("%.0f/s", median(with)), fmt.Sprintf("without %.0f/s", median(without)),
		fmt.Sprintf("%.2f", median(ratios)), ">= 0.90")
	return nil
}

// whileAsking returns the rate of a server that computes impacts all the time.
func (b *bench) whileAsking(ctx context.Context, p *process, ask func(context.Context) error) (float64, error) {
	asking, stop := context.WithCancel(ctx)
	var failed error
	var running sync.WaitGroup
	running.Go(func() {
		for asking.Err() == nil && failed == nil {
			failed = ask(asking)
		}
	})
	rate, err := b.wrk(ctx, p, nil)
	stop()
	running.Wait()
	if errors.Is(failed, context.Canceled) {
		failed = nil
	}
	return rate, errors.Join(err, failed)
}
