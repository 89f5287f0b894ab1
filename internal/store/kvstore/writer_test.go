package kvstore

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/natsd"
	"glowplug/internal/testkit"
)

func portFromEnv() int {
	port, err := strconv.Atoi(os.Getenv("GLOWPLUG_TEST_PORT"))
	if err != nil || port == 0 {
		return -1 // any
	}
	return port
}

// runWriter writes into a store with a server of its own until it is killed.
func runWriter(kind Kind, write func(ctx context.Context, s *Store)) {
	ctx := context.Background()
	server, err := natsd.Start(ctx, natsd.Options{DataDir: os.Getenv("GLOWPLUG_TEST_DIR")})
	if err != nil {
		panic(err)
	}
	nc, err := server.Connect()
	if err != nil {
		panic(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		panic(err)
	}
	s := New(kind, Options{Exclusive: true, Ledger: server})
	go s.Run(ctx, js)
	for s.connection.ReadinessCheck() != nil {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("ready")
	write(ctx, s)
}

// createHostsAlways creates hosts with four writers, and prints the name of each when it is acknowledged.
func createHostsAlways(ctx context.Context, s *Store) {
	base, _ := strconv.Atoi(os.Getenv("GLOWPLUG_TEST_BASE"))
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := base + w; ; i += 4 {
				h := host(i)
				if err := s.Create(ctx, hostKey(i), h, nil, 0); err != nil {
					panic(err)
				}
				os.Stdout.WriteString(h.Name + "\n")
			}
		})
	}
	wg.Wait()
}

// Every acknowledged object is there after kill -9.
func TestKill(t *testing.T) {
	rounds, length := 1, 300*time.Millisecond
	if os.Getenv("TEST_E2E") == "1" {
		rounds, length = 5, 2*time.Second
	}
	dir := t.TempDir()
	acked := map[string]bool{}
	for round := range rounds {
		for _, line := range killedWriter(t, "writer", dir, round*1_000_000, length) {
			if strings.HasPrefix(line, "host-") {
				acked[line] = true
			}
		}
		server := startEmbedded(t, dir)
		s := New(hostKind("HOSTS"), Options{Exclusive: true, Ledger: server})
		stop := run(t, s, connect(t, server))
		awaitReady(t, s)
		list := &v1.BareMetalHostList{}
		if err := s.GetList(context.Background(), "/baremetalhosts", storage.ListOptions{Recursive: true,
			Predicate: storage.Everything}, list); err != nil {
			t.Fatal(err)
		}
		stored := map[string]bool{}
		for _, h := range list.Items {
			stored[h.Name] = true
		}
		for name := range acked {
			if !stored[name] {
				t.Errorf("round %d: %s was acknowledged and is lost", round, name)
			}
		}
		t.Logf("round %d: %d acknowledged, %d stored", round, len(acked), len(stored))
		stop()
		stopEmbedded(t, server)
	}
	if len(acked) == 0 {
		t.Error("nothing was written")
	}
}

// killedWriter lets a writer write for some time, kills it, and returns the lines that it has printed.
func killedWriter(t *testing.T, role, dir string, base int, length time.Duration) (printed []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, "GLOWPLUG_TEST_DIR="+dir, "GLOWPLUG_TEST_BASE="+
		strconv.Itoa(base))
	out, err := os.Create(filepath.Join(t.TempDir(), "acked"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the writer writes", func() bool {
		info, err := os.Stat(out.Name())
		return err == nil && info.Size() > 20
	})
	time.Sleep(length)
	cmd.Process.Kill()
	cmd.Wait()
	lines, err := os.Open(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	for scan := bufio.NewScanner(lines); scan.Scan(); {
		printed = append(printed, scan.Text())
	}
	return printed
}
