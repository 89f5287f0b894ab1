package main

import (
	"context"
	"fmt"
)

// growth compares creates in a store with many objects with those in a store with 1000.
func (b *bench) growth(ctx context.Context) error {
	small := written{title: "IgnitionConfig (a small Butane)", resource: "ignitionconfigs", body: smallConfig}
	hosts := written{title: "BareMetalHost", resource: "baremetalhosts",
		body: func(i int) []byte { return host(1_000_000 + i) }}
	for _, g := range []struct {
		of             string
		hosts, configs int
		created        written
	}{
		{"configs", 1, 2 * b.configs, small}, {"hosts", b.hosts, 1, small}, {"hosts", b.hosts, 1, hosts},
	} {
		few, err := b.fill(ctx, "few-"+g.of+g.created.resource, min(g.hosts, 1000), min(g.configs, 1000))
		if err != nil {
			return err
		}
		defer few.stop()
		many, err := b.fill(ctx, "many-"+g.of+g.created.resource, g.hosts, g.configs)
		if err != nil {
			return err
		}
		measure := fmt.Sprintf("%s creates/s beside %d %s, 16 writers", g.created.title, max(g.hosts, g.configs), g.of)
		err = b.compareGrowth(ctx, measure, few, many, g.created)
		many.stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// compareGrowth creates objects in turns at two servers, and compares the rates and the CPU time of each create, with
// what is left for later.
func (b *bench) compareGrowth(ctx context.Context, measure string, few, many *process, k written) error {
	const n = 500
	var rates, work [2][]float64
	for round := range b.rounds {
		for i, p := range []*process{few, many} {
			before, err := p.worked()
			if err != nil {
				return err
			}
			rate, err := timed(n, func() error {
				return create(ctx, p.admin, k.resource, n, func(i int) []byte { return k.body(round*n + i) })
			})
			if err != nil {
				return err
			}
			after, err := p.rested()
			if err != nil {
				return err
			}
			rates[i], work[i] = append(rates[i], rate), append(work[i], (after-before).Seconds()*1e6/n)
		}
	}
	say := func(i int) string {
		return fmt.Sprintf("%.0f/s, %.0f µs of CPU each", median(rates[i]), median(work[i]))
	}
	b.add(measure, say(1), "beside 1000 "+say(0), fmt.Sprintf("%.2f, CPU %.2f", median(rates[1])/median(rates[0]),
		median(work[1])/median(work[0])), "within 1.3")
	return nil
}
