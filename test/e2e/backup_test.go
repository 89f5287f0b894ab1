package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"glowplug/internal/testkit"
)

// pairs is a config and a host that each writer writes one after the other, with the same number: a backup that has the
// host of a number has the config of that number, or of a later one.
const pairs = `
apiVersion: v1
kind: IgnitionConfig
metadata: {name: w%[1]d, namespace: default, labels: {number: "%[2]d"}}
spec: {type: ignition, format: ignition, config: '{"ignition":{"version":"3.4.0"}}', selector: {matchLabels: {w: "%[1]d"}}}
---
apiVersion: v1
kind: BareMetalHost
metadata: {name: w%[1]d, namespace: default, labels: {number: "%[2]d", w: "%[1]d"}}
spec: {bootMACAddress: "02:00:00:00:77:%02[1]x"}
`

// TestBackupsUnderWritersAndKills: while eight clients write, backups are taken, and the backup or the server is killed
// at a random moment. Each backup whose file is there restores whole, and is of one moment. A restore that is killed
// leaves an empty store or a complete one, and can be run again.
func TestBackupsUnderWritersAndKills(t *testing.T) {
	needs(t)
	s := start(t)
	s.kubectl(fmt.Sprintf(pairs, 0, 0), "apply", "-f", "-")
	w := startWriters(t, s)
	dir := t.TempDir()
	good := 0
	for round := range testkit.Few(6, 30) {
		file := filepath.Join(dir, fmt.Sprintf("%d.tar.gz", round))
		backup := exec.Command(program, "backup", file, "--server", s.admin(""))
		var out bytes.Buffer
		backup.Stdout, backup.Stderr = &out, &out
		if err := backup.Start(); err != nil {
			t.Fatal(err)
		}
		pause := time.Duration(rand.IntN(120)) * time.Millisecond
		switch round % 3 {
		case 0: // it is left alone
		case 1:
			time.AfterFunc(pause, func() { _ = backup.Process.Kill() })
		case 2:
			time.Sleep(pause)
			s.kill()
		}
		err := backup.Wait()
		if round%3 == 2 {
			s.restart()
		}
		_, missing := os.Stat(file)
		if round%3 == 0 && err != nil || err == nil && missing != nil {
			t.Fatalf("round %d: %v, %v: %s", round, err, missing, &out)
		}
		if missing != nil {
			continue
		}
		good++
		restoreWithKills(t, file)
	}
	w.stop()
	t.Logf("%d good backups, %d writes", good, w.written.Load())
}

// writers are clients that write pairs until they are stopped.
type writers struct {
	stopped chan struct{}
	running sync.WaitGroup
	written atomic.Int64
}

func startWriters(t *testing.T, s *server) *writers {
	w := &writers{stopped: make(chan struct{})}
	for i := 1; i <= 8; i++ {
		w.running.Go(func() {
			for n := 1; ; n++ {
				select {
				case <-w.stopped:
					return
				default:
				}
				config, host, _ := strings.Cut(fmt.Sprintf(pairs, i, n), "---")
				// apply goes on after an object that could not be written: the host comes by itself.
				if w.apply(s, config) {
					w.apply(s, host)
				}
			}
		})
	}
	t.Cleanup(w.stop)
	return w
}

func (w *writers) apply(s *server, manifest string) bool {
	cmd := exec.Command(program, "apply", "-f", "-", "--server", s.admin(""))
	cmd.Stdin = strings.NewReader(manifest)
	ok := cmd.Run() == nil
	if ok {
		w.written.Add(1)
	}
	return ok
}

func (w *writers) stop() {
	select {
	case <-w.stopped:
	default:
		close(w.stopped)
	}
	w.running.Wait()
}

var numberOf = regexp.MustCompile(`w(\d+) +(\d+)`)

// restoreWithKills kills a restore later and later until it ends, and looks at the store each time.
func restoreWithKills(t *testing.T, file string) {
	t.Helper()
	target := &server{t: t, dir: filepath.Join(t.TempDir(), "data"), host: "127.0.0.1", plain: freePort(t), tls: freePort(t)}
	killed := 0
	for pause := 5 * time.Millisecond; ; pause += pause / 2 {
		restore := exec.Command(program, "restore", file, "--data-dir", target.dir, "--replace")
		var out bytes.Buffer
		restore.Stdout, restore.Stderr = &out, &out
		if err := restore.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(pause, func() { _ = restore.Process.Kill() })
		err := restore.Wait()
		kill.Stop()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 0) {
			t.Fatalf("%v: %s", err, &out)
		}
		target.restart()
		numbers := target.kubectl("", "get", "ign,bmh", "-o", "custom-columns=N:.metadata.name,L:.metadata.labels.number", "--no-headers")
		target.kill()
		found := numberOf.FindAllStringSubmatch(numbers, -1)
		if err == nil && len(found) == 0 {
			t.Fatalf("after %d kills the store has %q: %v", killed, numbers, err)
		}
		of := map[string]string{} // configs come first
		for _, n := range found {
			if config, ok := of[n[1]]; !ok {
				of[n[1]] = n[2]
			} else if len(config) < len(n[2]) || len(config) == len(n[2]) && config < n[2] {
				t.Errorf("the host of writer %s has number %s, and its config has %s", n[1], n[2], config)
			}
		}
		if err == nil {
			return
		}
		killed++
	}
}

// TestFsckNamesWhatIsDamaged: fsck at a server, and of a store without one, names objects whose checksum does not hold
// or that are no objects, and ends with 3. Restored from a backup, they are as they were, and it ends with 0.
func TestFsckNamesWhatIsDamaged(t *testing.T) {
	needs(t)
	server := newNATS(t)
	server.start()
	url := "nats://127.0.0.1:" + server.port
	s := start(t, "--identity-claims=trust", "--nats-url", url)
	s.kubectl(fmt.Sprintf(pairs, 1, 1), "apply", "-f", "-")
	s.kubectl(fmt.Sprintf(pairs, 2, 1), "apply", "-f", "-")
	if got := get(t, s.url("/api/v1/ignition?mac=02:00:00:00:77:01")); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	testkit.Until(t, "the boot is stored", func() bool {
		out, _, _ := s.tryKubectl("", "get", "boots")
		return strings.Contains(out, "w1.")
	})
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	command(t, "backup", file, "--server", s.admin(""))
	before := s.kubectl("", "get", "bmh,ign", "-o", "custom-columns=N:.metadata.name,U:.metadata.uid,S:.status.state")
	fsck := func(code int, args ...string) string {
		t.Helper()
		cmd := exec.Command(program, append([]string{"fsck"}, args...)...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != code {
			t.Fatalf("fsck %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	stopped := []string{"--stopped", "--data-dir", s.dir, "--nats-url", url}
	fsck(0, "--server", s.admin(""))
	s.terminate()
	fsck(0, stopped...)

	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for subject, header := range map[string]string{
		"$KV.BAREMETALHOSTS.default/w1": "sum=00000000;write=x", "$KV.IGNITIONCONFIGS.default/w2": "write=x",
	} {
		msg := &nats.Msg{Subject: subject, Data: []byte("{"), Header: nats.Header{"Glowplug": {header}}}
		if _, err := conn.RequestMsg(msg, 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	damaged := func(out string) {
		t.Helper()
		for _, want := range []string{"baremetalhosts/default/w1: its checksum does not agree",
			"ignitionconfigs/default/w2: it cannot be read: ", "2 problems"} {
			if !strings.Contains(out, want) {
				t.Errorf("there is no %q:\n%s", want, out)
			}
		}
	}
	damaged(fsck(3, stopped...))
	s.restart()
	damaged(strings.ReplaceAll(fsck(3, "--server", s.admin("")), "3 problems", "2 problems")) // the server knows that w1 is lost
	if out, err := exec.Command(program, "backup", file+".2", "--server", s.admin("")).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "there is no backup, since the store has lost baremetalhosts") {
		t.Errorf("a backup without the host: %v %s", err, out)
	}
	s.terminate()
	only := []string{"restore", file, "--only", "baremetalhosts/default/w1", "--only", "ignitionconfigs/default",
		"--data-dir", s.dir, "--nats-url", url}
	if out := command(t, append(only, "--dry-run")...); !strings.Contains(out, "baremetalhosts/default/w1: would be restored") {
		t.Error(out)
	}
	t.Log(command(t, append(only, "--replace")...))
	fsck(0, stopped...)
	s.restart()
	if after := s.kubectl("", "get", "bmh,ign", "-o", "custom-columns=N:.metadata.name,U:.metadata.uid,S:.status.state"); after != before {
		t.Errorf("it is\n%s\nwas\n%s", after, before)
	}
	testkit.Until(t, "the machine is answered", func() bool {
		return get(t, s.admin("/api/v1/ignition?mac=02:00:00:00:77:02")).status == 200
	})
}
