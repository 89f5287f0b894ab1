package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// layered is how many configs lie over one layer.
const layered = 1000

// layers measures how long a change of a layer takes until every config above it is
// served with it, by asking as a machine does.
func (b *bench) layers(ctx context.Context) error {
	p, err := b.glowplug(ctx, "layers")
	if err != nil {
		return err
	}
	defer p.stop()
	url := "http://" + p.admin + "/api/v1/namespaces/bench/ignitionconfigs"
	if err := send(ctx, http.MethodPost, url, over("base", 0, "round-0"), http.StatusCreated); err != nil {
		return err
	}
	top := func(i int) []byte { return over(fmt.Sprintf("top-%04d", i), i, "own", "base") }
	if err := create(ctx, p.admin, "ignitionconfigs", layered, top); err != nil {
		return err
	}
	var taken, work []float64
	for round := range b.rounds {
		text := fmt.Sprintf("round-%d", round+1)
		before, err := p.worked()
		if err != nil {
			return err
		}
		start := time.Now()
		if err := send(ctx, http.MethodPut, url+"/base", over("base", 0, text), http.StatusOK); err != nil {
			return err
		}
		served := func(i int) error { return awaitServed(ctx, p.admin, fmt.Sprintf("top-%04d", i), text) }
		if err := parallel(layered, served); err != nil {
			return err
		}
		taken = append(taken, time.Since(start).Seconds())
		after, err := p.worked()
		if err != nil {
			return err
		}
		work = append(work, (after - before).Seconds())
	}
	b.add(fmt.Sprintf("a change of a base layer until %d configs above it are served with it, 5 KB each", layered),
		fmt.Sprintf("%.2f s, %.2f s of CPU", median(taken), median(work)), "-", "-", "<= 5 s")
	return nil
}

// over is a config of 5 KB in Butane, with a text in it that can be looked for.
func over(name string, i int, text string, layers ...string) []byte {
	var source strings.Builder
	fmt.Fprintf(&source, "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: /etc/%s\n      contents: "+
		"{inline: %s}\n", name, text)
	for f := range 10 {
		fmt.Fprintf(&source, "    - path: /etc/file-%s-%d\n      mode: 0644\n      contents: {source: \"data:,%s\"}\n", name,
			f, strings.Repeat("x", 400))
	}
	references := []map[string]string{}
	for _, layer := range layers {
		references = append(references, map[string]string{"name": layer})
	}
	spec := map[string]any{"type": "ignition", "format": "butane", "config": source.String(), "layers": references,
		"selector": map[string]any{"matchHostnames": []string{name}}}
	data, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "IgnitionConfig",
		"metadata": map[string]string{"name": name, "namespace": "bench"}, "spec": spec})
	return data
}

func awaitServed(ctx context.Context, addr, name, text string) error {
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		data, err := fetch(ctx, "http://"+addr+"/api/v1/ignition?hostname="+name)
		if err != nil {
			return err
		}
		if bytes.Contains(data, []byte(text)) {
			return nil
		}
		if time.Since(start) > time.Minute {
			return fmt.Errorf("config %s is not served with its layer's change within a minute", name)
		}
	}
}
