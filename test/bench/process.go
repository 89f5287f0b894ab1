package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func cores() int { return runtime.NumCPU() }

// process is a server that is measured.
type process struct {
	cmd  *exec.Cmd
	addr string
	// admin is the address where no credential is needed; "" where there is none.
	admin string
	// started is how long it took from exec to readiness.
	started time.Duration
	// script makes the requests of a load; "": they are all the same. claims is true
	// where they claim to be other machines.
	script string
	claims bool
}

func (p *process) stop() {
	_ = p.resume()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}

// pause stops the process from running, and resume lets it go on.
func (p *process) pause() error  { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// alone measures the process while it runs, and pauses it again.
func (p *process) alone(rate func(*process) (float64, error)) (float64, error) {
	if err := p.resume(); err != nil {
		return 0, err
	}
	measured, err := rate(p)
	return measured, errors.Join(err, p.pause())
}

// resident is the process's resident memory in MB.
func (p *process) resident() (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1000, err
		}
	}
	return 0, fmt.Errorf("no VmRSS for process %d", p.cmd.Process.Pid)
}

// worked is the CPU time that the process and its workers have taken, in steps of 10 ms.
func (p *process) worked() (all time.Duration, err error) {
	pid := strconv.Itoa(p.cmd.Process.Pid)
	workers, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err != nil {
		return 0, err
	}
	for _, one := range append(strings.Fields(string(workers)), pid) {
		took, err := workedBy(one)
		if err != nil {
			return 0, err
		}
		all += took
	}
	return all, nil
}

// workedBy is the CPU time that a process has taken.
func workedBy(pid string) (time.Duration, error) {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	// Behind the name, in parentheses: field 3 and on; 14 and 15 are the ticks.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// rested returns the CPU time that the process has taken once it takes next to none.
func (p *process) rested() (time.Duration, error) {
	for last := time.Duration(0); ; time.Sleep(2 * time.Second) {
		now, err := p.worked()
		if err != nil || now-last < 100*time.Millisecond {
			return now, err
		}
		last = now
	}
}

// launch runs argv, whose server listens on addr, until ready answers 200.
func (b *bench) launch(ctx context.Context, addr, ready string, argv ...string) (*process, error) {
	log, err := os.Create(filepath.Join(b.dir, "log-"+strings.ReplaceAll(addr, ":", "-")))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for time.Since(start) < 2*time.Minute {
		if resp, err := http.Get("http://" + addr + ready); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return &process{cmd: cmd, addr: addr, started: time.Since(start)}, nil
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	text, _ := os.ReadFile(log.Name())
	return nil, fmt.Errorf("%s was not ready after two minutes:\n%s", argv[0], text)
}

// glowplug runs the server over a data folder.
func (b *bench) glowplug(ctx context.Context, data string, args ...string) (*process, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddress()
	if err != nil {
		return nil, err
	}
	argv := append([]string{b.program, "serve", "--data-dir", filepath.Join(b.dir, data), "--listen", addr,
		"--listen-tls", "", "--admin-listen", admin, "--max-requests-per-source", "1000000"}, args...)
	p, err := b.launch(ctx, addr, "/readyz", argv...)
	if err != nil {
		return nil, err
	}
	p.admin = admin
	return p, nil
}

func (b *bench) bare(ctx context.Context, file string) (*process, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	return b.launch(ctx, addr, "/", b.self, "--bare", addr, "--file", file)
}

// nginx serves the file as static content.
func (b *bench) nginx(ctx context.Context, file string) (*process, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "nginx")
	if err := os.MkdirAll(filepath.Join(dir, "www"), 0o755); err != nil {
		return nil, err
	}
	served := filepath.Join(dir, "www", "config")
	_ = os.Remove(served)
	if err := os.Link(file, served); err != nil {
		return nil, err
	}
	for _, d := range []string{b.dir, dir, filepath.Join(dir, "www")} { // nginx reads as another user
		if err := os.Chmod(d, 0o755); err != nil {
			return nil, err
		}
	}
	conf := fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log %[1]s/error.log; worker_processes %[3]d;
events { worker_connections 4096; }
http { access_log %[1]s/access.log combined buffer=64k flush=1s; sendfile on; tcp_nopush on; open_file_cache max=16;
server { listen %[2]s reuseport; root %[1]s/www; default_type application/vnd.coreos.ignition+json; } }`, dir, addr,
		cores())
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o644); err != nil {
		return nil, err
	}
	return b.launch(ctx, addr, "/config", "nginx", "-c", path, "-p", dir)
}

// serveBare is the yardstick: net/http, the same bytes, nothing else.
func serveBare(addr, file string) error {
	body, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	length := []string{strconv.Itoa(len(body))}
	contentType := []string{"application/vnd.coreos.ignition+json"}
	server := &http.Server{Addr: addr, ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h["Content-Type"], h["Content-Length"] = contentType, length
			_, _ = w.Write(body)
		})}
	return server.ListenAndServe()
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
