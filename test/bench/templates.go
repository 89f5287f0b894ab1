package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// templated is the number of hosts that a template is rendered for.
const templated = 10_000

// butane is a source of 5 KB for all hosts; name is what stands in it for a host.
func butane(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: /etc/hostname\n      contents: "+
		"{inline: %s}\n", name)
	for f := range 10 {
		fmt.Fprintf(&b, "    - path: /etc/file-%d\n      mode: 0644\n      contents:\n        inline: %s-%s\n", f, name,
			noise(f))
	}
	return b.String()
}

// noise is 400 characters that do not compress, so that what is served is of 5 KB.
func noise(seed int) string {
	var b strings.Builder
	for i := 0; b.Len() < 400; i++ {
		sum := sha256.Sum256([]byte{byte(seed), byte(i)})
		b.WriteString(base64.RawURLEncoding.EncodeToString(sum[:]))
	}
	return b.String()[:400]
}

// workers is the config of all workers.
func workers(source string, isTemplate bool) []byte {
	return object("IgnitionConfig", "workers", map[string]any{
		"type": "ignition", "format": "butane", "config": source, "template": isTemplate,
		"selector": map[string]any{"matchLabels": map[string]string{"role": "worker"}},
	})
}

// macOf is the hardware address of the i-th host.
func macOf(i int) string {
	return fmt.Sprintf("52:54:%02x:%02x:%02x:%02x", i>>24&255, i>>16&255, i>>8&255, i&255)
}

// ownConfig is the config of the i-th host alone, as its template would be rendered.
func ownConfig(i int) []byte {
	name := fmt.Sprintf("host-%06d", i)
	return object("IgnitionConfig", name, map[string]any{
		"type": "ignition", "format": "butane", "config": butane(name),
		"selector": map[string]any{"matchMACs": []string{macOf(i)}},
	})
}

// templates measures a template for many hosts: every host once, beginning with the
// write of the template, so that nothing can have been rendered before; and once all
// are rendered, beside a config that is the same for all, and beside as many configs
// as there are hosts, which are as many bytes in memory.
func (b *bench) templates(ctx context.Context) error {
	ours, err := b.glowplug(ctx, "templates")
	if err != nil {
		return err
	}
	defer ours.stop()
	plain, err := b.glowplug(ctx, "plain")
	if err != nil {
		return err
	}
	defer plain.stop()
	own, err := b.glowplug(ctx, "own")
	if err != nil {
		return err
	}
	defer own.stop()
	for _, p := range []*process{ours, plain, own} {
		if err := create(ctx, p.admin, "baremetalhosts", templated, host); err != nil {
			return err
		}
	}
	configs := "/api/v1/namespaces/bench/ignitionconfigs"
	if err := send(ctx, http.MethodPost, "http://"+plain.admin+configs, workers(butane("host-000000"), false),
		http.StatusCreated); err != nil {
		return err
	}

	if err := create(ctx, own.admin, "ignitionconfigs", templated, ownConfig); err != nil {
		return err
	}

	for _, p := range []*process{plain, own} {
		if _, err := p.rested(); err != nil { // conversions and events come later than the answers
			return err
		}
	}
	before, err := ours.rested()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := send(ctx, http.MethodPost, "http://"+ours.admin+configs, workers(butane("{{ .Hostname }}"), true),
		http.StatusCreated); err != nil {
		return err
	}
	if err := parallel(templated, func(i int) error { return b.once(ctx, ours.admin, i) }); err != nil {
		return err
	}
	rate := templated / time.Since(start).Seconds()
	after, err := ours.worked()
	if err != nil {
		return err
	}
	b.add(fmt.Sprintf("a template of 5 KB for %d hosts, each asking once as it is written", templated),
		fmt.Sprintf("%.0f renders/s, %.1f ms of CPU each", rate, float64((after-before).Milliseconds())/templated), "-", "-",
		">= 200/s")

	if err := b.told(ctx, ours.admin+configs+"/workers"); err != nil {
		return err
	}
	script := filepath.Join(b.dir, "hosts.lua")
	lua := fmt.Sprintf("local n = 0\nrequest = function()\n  n = (n + 7919) %% %d\n  return wrk.format('GET', "+
		"string.format('/api/v1/ignition?mac=52:54:00:00:%%02x:%%02x', math.floor(n / 256), n %% 256))\nend\n", templated)
	if err := os.WriteFile(script, []byte(lua), 0o644); err != nil {
		return err
	}
	for _, p := range []*process{ours, plain, own} {
		p.script, p.claims = script, true
	}
	if _, err := b.compare(ctx, fmt.Sprintf("keep-alive requests/s of %d hosts in turn, a template once rendered",
		templated),
		ours, "a config without a template", plain, ">= 0.85"); err != nil {
		return err
	}
	if _, err := b.compare(ctx, "the same, where each host is given other bytes either way",
		ours, fmt.Sprintf("%d configs without a template", templated), own, "beside it"); err != nil {
		return err
	}
	rss, err := ours.resident()
	if err != nil {
		return err
	}
	other, err := plain.resident()
	if err != nil {
		return err
	}
	b.add("resident memory with them rendered", fmt.Sprintf("%.0f MB", rss), fmt.Sprintf("without a template %.0f MB",
		other), "-", "-")
	return nil
}

// once asks as a host; a server that has not come to it yet is asked again, as
// Ignition does.
func (b *bench) once(ctx context.Context, addr string, i int) error {
	url := "http://" + addr + "/api/v1/ignition?mac=" + macOf(i)
	want := []byte(fmt.Sprintf("data:,host-%06d\"", i))
	for try := 0; ; try++ {
		data, err := fetch(ctx, url)
		switch {
		case err == nil && !bytes.Contains(data, want):
			return fmt.Errorf("host %d was given the config of another", i)
		case err == nil:
			return nil
		case try == 10:
			return err
		}
		time.Sleep(time.Second)
	}
}

// told waits until the status says that all hosts are rendered.
func (b *bench) told(ctx context.Context, url string) error {
	want := []byte(fmt.Sprintf(`"hosts":{"total":%d,"ready":%d}`, templated, templated))
	for range 120 {
		data, err := fetch(ctx, "http://"+url)
		if err != nil {
			return err
		}
		if bytes.Contains(data, want) {
			return nil
		}
		time.Sleep(time.Second)
	}
	return fmt.Errorf("the status of the template did not come to say that all %d hosts are ready", templated)
}
