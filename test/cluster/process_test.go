package cluster

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// process is a program in a node's namespace. It ends with the test, and with the
// test's process.
type process struct {
	t    *testing.T
	at   node
	log  string // file of what it prints
	argv []string
	cmd  *exec.Cmd
}

func (p *process) start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command("ip", append([]string{"netns", "exec", p.at.namespace}, p.argv...)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	cmd := p.cmd
	p.t.Cleanup(func() { end(cmd) })
}

// kill is kill -9.
func (p *process) kill() { end(p.cmd) }

func end(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

func (p *process) pause()  { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }
