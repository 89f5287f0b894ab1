package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// client keeps as many connections as there are writers.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// host is the i-th BareMetalHost; the first has the load generator's address.
func host(i int) []byte {
	ip := fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)
	if i == 0 {
		ip = "127.0.0.1"
	}
	return object("BareMetalHost", fmt.Sprintf("host-%06d", i), map[string]any{
		"bootMACAddress": fmt.Sprintf("52:54:%02x:%02x:%02x:%02x", i>>24&255, i>>16&255, i>>8&255, i&255),
		"ip":             ip,
		"labels": map[string]string{"role": "worker", "rack": fmt.Sprintf("rack-%d", i/40),
			"slot": fmt.Sprint(i % 40)},
	})
}

// config is the i-th IgnitionConfig of 5 KB; the first matches the first host.
func config(i int) []byte {
	files := make([]map[string]any, 10)
	for f := range files {
		files[f] = map[string]any{"path": fmt.Sprintf("/etc/file-%d-%d", i, f), "mode": 420,
			"contents": map[string]string{"source": "data:," + strings.Repeat("x", 400)}}
	}
	source, _ := json.Marshal(map[string]any{"ignition": map[string]string{"version": "3.4.0"},
		"storage": map[string]any{"files": files}})
	return object("IgnitionConfig", fmt.Sprintf("config-%05d", i), map[string]any{
		"type": "ignition", "format": "ignition", "config": string(source),
		"selector": map[string]any{"matchLabels": map[string]string{"rack": fmt.Sprintf("rack-%d", i), "role": "worker"}},
	})
}

func object(kind, name string, spec map[string]any) []byte {
	data, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": kind,
		"metadata": map[string]string{"name": name, "namespace": "bench"}, "spec": spec})
	return data
}

// fill starts a server whose store holds so many hosts and configs.
func (b *bench) fill(ctx context.Context, data string, hosts, configs int, args ...string) (*process, error) {
	p, err := b.glowplug(ctx, data, args...)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	err = create(ctx, p.admin, "ignitionconfigs", configs, config)
	if err == nil {
		err = create(ctx, p.admin, "baremetalhosts", hosts, host)
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	if hosts > 1 {
		log.Printf("stored %d hosts and %d configs in %s", hosts, configs, time.Since(start).Round(time.Second))
	}
	if _, err := p.rested(); err != nil { // conversions and events come later than the answers
		p.stop()
		return nil, err
	}
	return p, nil
}

const writers = 16

// create posts n objects with 16 writers.
func create(ctx context.Context, addr, resource string, n int, body func(int) []byte) error {
	url := "http://" + addr + "/api/v1/namespaces/bench/" + resource
	return parallel(n, func(i int) error { return send(ctx, http.MethodPost, url, body(i), http.StatusCreated) })
}

// parallel calls do for 0..n-1 from 16 goroutines and gives the first error.
func parallel(n int, do func(int) error) error {
	var next atomic.Int64
	var first error
	var once sync.Once
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					once.Do(func() { first = err })
					return
				}
			}
		})
	}
	group.Wait()
	return first
}

func send(ctx context.Context, method, url string, body []byte, want int) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	return perform(req, want)
}

// newPost makes a request with a JSON body.
func newPost(ctx context.Context, url string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

// perform makes a request that is to be answered so.
func perform(req *http.Request, want int) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s %s: %d: %.300s", req.Method, req.URL, resp.StatusCode, text)
	}
	return err
}

// fetch gets a page, with headers as name, value, name, value.
func fetch(ctx context.Context, url string, headers ...string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d: %.300s", url, resp.StatusCode, data)
	}
	return data, err
}

// large measures a server with a large store: start, memory, serving, updates.
func (b *bench) large(ctx context.Context, small *process) error {
	p, err := b.fill(ctx, "large", b.hosts, b.configs)
	if err != nil {
		return err
	}
	p.stop()
	if err := b.starts(ctx, "large"); err != nil {
		return err
	}
	if p, err = b.glowplug(ctx, "large"); err != nil {
		return err
	}
	defer func() { p.stop() }()
	stored := fmt.Sprintf("%d hosts and %d configs", b.hosts, b.configs)
	b.add("start to /readyz, "+stored, fmt.Sprintf("%.2f s", p.started.Seconds()), "-", "-", "<= 4 s")
	time.Sleep(2 * time.Second)
	rss, err := p.resident()
	if err != nil {
		return err
	}
	b.add("resident memory after the start, "+stored, fmt.Sprintf("%.0f MB", rss), "-", "-", "<= 700 MB")
	if _, err := b.compare(ctx, "keep-alive requests/s, "+stored, p, "ours with one host", small, ">= 0.95"); err != nil {
		return err
	}
	if rss, err = p.resident(); err != nil {
		return err
	}
	b.add("resident memory after the load, "+stored, fmt.Sprintf("%.0f MB", rss), "-", "-", "<= 700 MB")
	return b.updates(ctx, p)
}

// updates changes one host among many, from sending the write until the change is served.
func (b *bench) updates(ctx context.Context, p *process) error {
	object := "http://" + p.admin + "/api/v1/namespaces/bench/baremetalhosts/host-000000"
	var taken []float64
	for i := range 300 {
		rack := fmt.Sprintf("rack-%d", i%2)
		want := []byte(fmt.Sprintf("/etc/file-%d-0", i%2))
		start := time.Now()
		if err := send(ctx, http.MethodPatch, object, []byte(`{"spec":{"labels":{"rack":"`+rack+`"}}}`),
			http.StatusOK); err != nil {
			return err
		}
		for {
			data, err := fetch(ctx, "http://"+p.addr+"/api/v1/ignition")
			if err != nil {
				return err
			}
			if bytes.Contains(data, want) {
				break
			}
			if time.Since(start) > 5*time.Second {
				return fmt.Errorf("an update was not served within 5 s")
			}
		}
		taken = append(taken, float64(time.Since(start).Microseconds())/1000)
	}
	slices.Sort(taken)
	b.add("an update of one host among them, from the write until it is served",
		fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", taken[len(taken)/2], taken[len(taken)*99/100]), "-", "-", "p99 <= 20 ms")
	return nil
}
