package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fleet are hosts of a server that takes loopback for a proxy, so that each can be
// asked for by its address.
type fleet struct {
	t      *testing.T
	server *server
	size   int
	client *http.Client
}

const fleetObjects = `
apiVersion: v1
kind: ISCSICdrom
metadata: {name: router, namespace: fleet}
spec: {external: {portal: 192.168.10.1, iqn: "iqn.2000-02.com.mikrotik:cdrom-coreos-live"}}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: all, namespace: fleet}
spec:
  type: ignition
  format: ignition
  config: '{"ignition":{"version":"3.4.0"}}'
  selector: {default: true}
`

// newFleet starts a server and makes hosts.
func newFleet(t *testing.T, size int) *fleet {
	t.Helper()
	f := &fleet{t: t, size: size, server: start(t, "--trusted-proxies", "127.0.0.0/8", "--log-level", "error"),
		client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	f.server.kubectl(fleetObjects, "apply", "-f", "-")
	url := f.server.admin("/api/v1/namespaces/fleet/baremetalhosts")
	f.all(func(i int) {
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"h%d"},"spec":{"ip":%q,"image":"router"}}`, i, fleetAddress(i))
		resp, err := f.client.Post(url, "application/json", strings.NewReader(body))
		if err != nil || resp.StatusCode != http.StatusCreated {
			t.Errorf("host %d: %v %v", i, err, resp)
			return
		}
		discard(resp)
	})
	return f
}

func fleetAddress(i int) string { return fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250) }

func discard(resp *http.Response) {
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

// all does something for every host, 32 at a time.
func (f *fleet) all(do func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 32 {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < f.size; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	workers.Wait()
}

// ask asks as a host: the status, 0 where the server is gone, and the body.
func (f *fleet) ask(i int, method, path string) (status int, body string) {
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.server.url(path), nil)
	if err != nil {
		f.t.Error(err)
		return 0, ""
	}
	req.Header.Set("X-Forwarded-For", fleetAddress(i))
	resp, err := f.client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(data)
}

// bootsDisk reports whether a host is told to boot its disk now.
func (f *fleet) bootsDisk(i int) bool {
	status, body := f.ask(i, http.MethodGet, "/ipxe")
	return status == http.StatusOK && strings.Contains(body, "\nexit\n")
}

// TestStormSurvivesKill boots 500, 3,000 and 10,000 hosts and kills the server at a random moment:
// each that was told that its boot-complete is taken boots its disk after the
// restart, and so does each that was given its config more than a second before.
func TestStormSurvivesKill(t *testing.T) {
	needs(t)
	for _, size := range []int{500, 3_000, 10_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) { stormSurvivesKill(t, size) })
	}
}

func stormSurvivesKill(t *testing.T, size int) {
	f := newFleet(t, size)
	configured, completed := make([]atomic.Int64, f.size), make([]atomic.Bool, f.size)
	var done atomic.Int64
	killAt := 1 + rand.Int64N(int64(f.size))
	var killed sync.Once
	var deathTime atomic.Int64
	kill := func() { killed.Do(func() { deathTime.Store(time.Now().UnixNano()); f.server.kill() }) }
	began := time.Now()
	f.all(func(i int) {
		if status, body := f.ask(i, http.MethodGet, "/ipxe"); status == 200 && !strings.Contains(body, "\nsanboot ") {
			t.Errorf("host %d does not boot its image:\n%s", i, body)
		}
		if status, _ := f.ask(i, http.MethodGet, "/api/v1/ignition"); status == 200 {
			configured[i].Store(time.Now().UnixNano())
		}
		if i%10 == 9 { // it is not done yet
			return
		}
		if status, _ := f.ask(i, http.MethodPost, "/api/v1/boot-complete"); status == 200 {
			completed[i].Store(true)
		}
		if done.Add(1) == killAt {
			kill()
		}
	})
	took := time.Since(began)
	kill()
	f.server.restart()
	var served, complete, again, lost atomic.Int64
	f.all(func(i int) {
		at := configured[i].Load()
		isServed := at != 0 && at < deathTime.Load()-int64(time.Second)
		if completed[i].Load() {
			complete.Add(1)
		}
		if isServed {
			served.Add(1)
		}
		if (completed[i].Load() || isServed) && !f.bootsDisk(i) {
			if lost.Add(1); completed[i].Load() {
				again.Add(1)
			}
		}
	})
	t.Logf("%v; killed after %d: %d were complete, %d had their config for a second", took, killAt, complete.Load(),
		served.Load())
	if n := lost.Load(); n > 0 {
		t.Errorf("%d hosts would be installed again, of which %d had been told that they are complete", n, again.Load())
	}

	// An administrator's correction stands, also after a kill -9.
	first := -1
	for i := range completed {
		if completed[i].Load() {
			first = i
			break
		}
	}
	name := fmt.Sprintf("h%d", first)
	state := func() string {
		return f.server.kubectl("", "get", "bmh", "-n", "fleet", name, "-o", "jsonpath={.status.state}")
	}
	if first < 0 {
		return
	}
	deadline := time.Now().Add(time.Minute)
	for !strings.Contains(get(t, f.server.url("/metrics")).body, `glowplug_journal_pending{kind="state"} 0`) {
		if time.Now().After(deadline) {
			t.Fatal("the statuses do not follow")
		}
		time.Sleep(100 * time.Millisecond)
	}
	if got := state(); got != "Provisioned" {
		t.Errorf("%s is %s", name, got)
	}
	f.server.kubectl("", "patch", "bmh", "-n", "fleet", name, "--subresource=status", "--type=merge", "-p",
		`{"status":{"state":"Available"}}`)
	f.server.kill()
	f.server.restart()
	if got := state(); got != "Available" || f.bootsDisk(first) {
		t.Errorf("%s is %s after an admin made it Available", name, got)
	}
}

// TestCompleteSurvivesKill kills the server right after the answer.
func TestCompleteSurvivesKill(t *testing.T) {
	needs(t)
	f := newFleet(t, 12)
	for i := range f.size {
		if f.bootsDisk(i) {
			t.Fatalf("host %d boots its disk", i)
		}
		if status, body := f.ask(i, http.MethodPost, "/api/v1/boot-complete"); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		f.server.kill()
		f.server.restart()
		for j := range i + 1 {
			if !f.bootsDisk(j) {
				t.Fatalf("host %d would be installed again", j)
			}
		}
	}
}
