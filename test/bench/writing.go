package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/natsd"
)

// writing compares creates through the API with plain KV puts of the stored
// bytes into the same kind of store: both fsync every write.
func (b *bench) writing(ctx context.Context) error {
	ours, err := b.glowplug(ctx, "writing")
	if err != nil {
		return err
	}
	defer ours.stop()
	store, err := natsd.Start(ctx, natsd.Options{DataDir: filepath.Join(b.dir, "kv"),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return err
	}
	defer func() { _ = store.Shutdown(context.WithoutCancel(ctx)) }()
	conn, err := store.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "PLAIN", MaxValueSize: -1})
	if err != nil {
		return err
	}

	for _, k := range []written{
		{"BareMetalHost", "baremetalhosts", "host", host},
		{"IgnitionConfig (a small Butane)", "ignitionconfigs", "butane", smallConfig},
	} {
		if err := b.compareWrites(ctx, ours, kv, k); err != nil {
			return err
		}
	}
	return b.storing(ctx)
}

// written is a kind of which objects are created.
type written struct {
	title, resource, prefix string
	body                    func(i int) []byte
}

// smallConfig is the i-th IgnitionConfig of 130 bytes of Butane, which matches no host.
func smallConfig(i int) []byte {
	return object("IgnitionConfig", fmt.Sprintf("butane-%06d", i), map[string]any{
		"type": "ignition", "format": "butane",
		"selector": map[string]any{"matchHostnames": []string{fmt.Sprintf("none-%06d", i)}},
		"config": fmt.Sprintf("variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: /etc/hostname\n      mode: "+
			"0644\n"+
			"      contents:\n        inline: machine-%06d\n", i),
	})
}

func (b *bench) compareWrites(ctx context.Context, ours *process, kv jetstream.KeyValue, k written) error {
	if err := create(ctx, ours.admin, k.resource, 1, k.body); err != nil {
		return err
	}
	value, err := fetch(ctx, fmt.Sprintf("http://%s/api/v1/namespaces/bench/%s/%s-000000", ours.admin, k.resource,
		k.prefix))
	if err != nil {
		return err
	}
	const n = 4000
	var plain, api, work, ratios []float64
	for round := range b.rounds {
		offset := 1 + round*n
		before, err := ours.worked()
		if err != nil {
			return err
		}
		rate, err := timed(n, func() error {
			return create(ctx, ours.admin, k.resource, n, func(i int) []byte { return k.body(offset + i) })
		})
		if err != nil {
			return err
		}
		after, err := ours.rested() // with the work that was left for later
		if err != nil {
			return err
		}
		work = append(work, (after-before).Seconds()*1e6/n)
		puts, err := timed(n, func() error {
			return parallel(n, func(i int) error {
				_, err := kv.Put(ctx, fmt.Sprintf("bench/%s-%06d", k.prefix, offset+i), value)
				return err
			})
		})
		if err != nil {
			return err
		}
		api, plain, ratios = append(api, rate), append(plain, puts), append(ratios, rate/puts)
	}
	b.add(k.title+" creates/s over HTTP, 16 writers", fmt.Sprintf("%.0f/s, %.0f µs of CPU each", median(api),
		median(work)),
		fmt.Sprintf("plain KV puts with SyncAlways %.0f/s", median(plain)), fmt.Sprintf("%.2f", median(ratios)), ">= 0.80")
	return nil
}

// storing compares the same where the API's work is left out.
func (b *bench) storing(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkCreateRatio$", "-benchtime", "20x",
		"./internal/store/kvstore")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	var figures [3]string
	for i, unit := range []string{"create/s", "put/s", "ratio"} {
		m := regexp.MustCompile(`([0-9.]+) ` + unit).FindSubmatch(out)
		if m == nil {
			return fmt.Errorf("BenchmarkCreateRatio printed no %s:\n%s", unit, out)
		}
		figures[i] = string(m[1])
	}
	b.add("the same at storage.Interface, without HTTP and the API", figures[0]+"/s",
		"plain KV puts with SyncAlways "+figures[1]+"/s", figures[2], "beside it")
	return nil
}

// timed returns operations per second.
func timed(n int, do func() error) (float64, error) {
	start := time.Now()
	err := do()
	return float64(n) / time.Since(start).Seconds(), err
}
