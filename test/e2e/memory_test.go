package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// memoryLimit is what the control group of these tests allows.
const memoryLimit = 300 << 20

// limitedGroup makes a control group with a memory limit and gives the command
// that runs a program in it.
func limitedGroup(t *testing.T, limit int) []string {
	t.Helper()
	name := fmt.Sprintf("glowplug-test-%d-%s", os.Getpid(), t.Name())
	dir, file := filepath.Join("/sys/fs/cgroup", name), "memory.max"
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes"); err == nil {
		dir, file = filepath.Join("/sys/fs/cgroup/memory", name), "memory.limit_in_bytes"
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("needs to make a control group: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := os.WriteFile(filepath.Join(dir, file), fmt.Append(nil, limit), 0o644); err != nil {
		t.Skipf("needs to limit the memory of a control group: %v", err)
	}
	_ = os.WriteFile(filepath.Join(dir, "memory.swap.max"), []byte("0"), 0o644)
	return []string{"sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, dir}
}

// TestMemoryIsBounded attacks a server that may take 300 MB with what its API
// allows: it answers or refuses, goes on, and serves machines all the while.
func TestMemoryIsBounded(t *testing.T) {
	needs(t, "root")
	s := &server{t: t, host: "127.0.0.1", dir: filepath.Join(t.TempDir(), "data"), plain: freePort(t), tls: freePort(t),
		args: []string{"--log-level", "error"}, wrap: limitedGroup(t, memoryLimit)}
	s.launch()
	s.waitReady()
	exited := make(chan struct{})
	go func() { _ = s.cmd.Wait(); close(exited) }()
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); <-exited })
	if out := putConfig(s, "POST", "boot", 100); out != http.StatusCreated {
		t.Fatalf("the machines' config: %d", out)
	}
	makeHosts(t, s, 8000)
	boots := bootAllTheTime(t, s)

	for _, attack := range []struct {
		name  string
		begin func(t *testing.T, s *server)
	}{
		{"30 lists of 8000 hosts", func(t *testing.T, s *server) {
			checkAnswers(t, concurrently(30, func(int) int { return statusOf(s, "GET", "/api/v1/baremetalhosts", nil) }),
				http.StatusOK)
		}},
		{"40 writes of 2 MB", func(t *testing.T, s *server) {
			checkAnswers(t, concurrently(40, func(i int) int {
				return putConfig(s, "POST", fmt.Sprint("large-", i),
					2_000_000)
			}), http.StatusCreated)
		}},
		{"40 reads of 2 MB", func(t *testing.T, s *server) {
			checkAnswers(t, concurrently(40, func(int) int {
				return statusOf(s, "GET",
					"/api/v1/namespaces/default/ignitionconfigs", nil)
			}), http.StatusOK)
		}},
		{"deletes of what was written", func(t *testing.T, s *server) {
			concurrently(40, func(i int) int {
				return statusOf(s, "DELETE", fmt.Sprint("/api/v1/namespaces/default/ignitionconfigs/large-", i), nil)
			})
		}},
		{"200 watches that nobody reads", unreadWatches},
	} {
		before, failed, began := boots.served.Load(), boots.failed.Load(), time.Now()
		attack.begin(t, s)
		// One machine asks 50 times a second; some of the attacks take less than one.
		want := min(10, int64(time.Since(began)/(100*time.Millisecond)))
		select {
		case <-exited:
			t.Fatalf("%s: the server is gone: %v", attack.name, s.cmd.ProcessState)
		default:
		}
		if served := boots.served.Load() - before; served < want || boots.failed.Load() > failed {
			t.Errorf("%s: %d boots were served and %d not", attack.name, served, boots.failed.Load()-failed)
		}
		t.Logf("%s: %d boots served", attack.name, boots.served.Load()-before)
	}
}

// unreadWatches opens watches and reads nothing, while a large config changes.
func unreadWatches(t *testing.T, s *server) {
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	until(t, func() int { return putConfig(s, "POST", "watched", 900_000) }, http.StatusCreated)
	for range 200 {
		c, err := net.Dial("tcp", net.JoinHostPort(s.host, s.plain))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(c, "GET /api/v1/namespaces/default/ignitionconfigs?watch=1&resourceVersion=0&fieldSelector=metadata.name%%3Dwatched HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	for i := range 8 {
		until(t, func() int { return putConfig(s, "PUT", "watched", 900_000+i) }, http.StatusOK)
	}
}

// putConfig stores a config of about size bytes and gives the status of the answer.
func putConfig(s *server, method, name string, size int) int {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"IgnitionConfig","metadata":{"name":%q,"namespace":"default"},"spec":{"type":"ignition","format":"ignition",`+
		`"config":"{\"ignition\":{\"version\":\"3.4.0\"},\"storage\":{\"files\":[{\"path\":\"/etc/a\",\"contents\":{\"source\":\"data:,%s\"}}]}}",`+
		`"selector":{"default":%v}}}`, name, strings.Repeat("x", size), name == "boot")
	path := "/api/v1/namespaces/default/ignitionconfigs"
	if method == "PUT" {
		path += "/" + name
	}
	return statusOf(s, method, path, []byte(body))
}

// statusOf returns the status of an answer that it reads to its end; 0 for none.
func statusOf(s *server, method, path string, body []byte) int {
	r, err := http.NewRequest(method, s.admin(path), bytes.NewReader(body))
	if err != nil {
		return 0
	}
	r.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0
	}
	if resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") == "" {
		return 0
	}
	return resp.StatusCode
}

// until repeats a request that is refused for want of memory.
func until(t *testing.T, do func() int, want int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for status := do(); status != want; status = do() {
		if status != http.StatusTooManyRequests && status != http.StatusInsufficientStorage || time.Now().After(deadline) {
			t.Fatalf("status %d, want %d", status, want)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func concurrently(n int, do func(i int) int) []int {
	answers := make([]int, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { answers[i] = do(i) })
	}
	all.Wait()
	return answers
}

// checkAnswers wants answers, or refusals for want of memory, and some answers.
func checkAnswers(t *testing.T, answers []int, want int) {
	t.Helper()
	count := map[int]int{}
	for _, status := range answers {
		count[status]++
	}
	if count[want] == 0 || count[want]+count[http.StatusTooManyRequests]+
		count[http.StatusInsufficientStorage] != len(answers) {
		t.Errorf("answers by status: %v", count)
	}
	t.Logf("answers by status: %v", count)
}

func makeHosts(t *testing.T, s *server, n int) {
	t.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	for range 16 {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				body := fmt.Sprintf(`{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"host-%d","namespace":"default","labels":{"rack":"r%d"}},`+
					`"spec":{"bootMACAddress":"02:00:00:00:%02x:%02x"}}`, i, i%40, i>>8, i&255)
				resp, err := client.Post(s.admin("/api/v1/namespaces/default/baremetalhosts"), "application/json",
					strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusCreated {
					t.Errorf("host %d: %s", i, resp.Status)
					return
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// bootCounts are the boots of a machine that asks again and again.
type bootCounts struct{ served, failed atomic.Int64 }

func bootAllTheTime(t *testing.T, s *server) *bootCounts {
	counts := &bootCounts{}
	stop, stopped := make(chan struct{}), make(chan struct{})
	client := &http.Client{Timeout: 10 * time.Second}
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			resp, err := client.Get(s.url("/api/v1/ignition"))
			if err != nil {
				counts.failed.Add(1)
				continue
			}
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK {
				counts.failed.Add(1)
				continue
			}
			counts.served.Add(1)
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
	return counts
}
