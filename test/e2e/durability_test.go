package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"glowplug/internal/testkit"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
)

var hosts = schema.GroupVersionResource{Version: "v1", Resource: "baremetalhosts"}

// TestDeletionOfANamespaceSurvivesKill kills the server while it deletes the objects of a
// namespace: the deletion is finished after the restart.
func TestDeletionOfANamespaceSurvivesKill(t *testing.T) {
	needs(t)
	s := start(t)
	for i := range 300 {
		if err := createHost(t.Context(), s, fmt.Sprintf("h-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	s.kubectl("", "delete", "ns", "kill", "--wait=false")
	s.kill()
	s.restart()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		left := s.kubectl("", "get", "ns,bmh", "-A", "--ignore-not-found")
		if !strings.Contains(left, "kill") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left of the deleted namespace:\n%s", left)
		}
	}
}

// TestKillNine kills the server under four writers, five times: every object
// that was acknowledged is there after the restart.
func TestKillNine(t *testing.T) {
	needs(t)
	s := start(t)
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	for round := range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					name := fmt.Sprintf("h-%d-%d-%d", round, w, i)
					if createHost(ctx, s, name) == nil {
						mu.Lock()
						acknowledged[name] = true
						mu.Unlock()
					}
				}
			})
		}
		time.Sleep(700 * time.Millisecond)
		s.kill()
		cancel()
		writers.Wait()
		s.restart()
	}
	if len(acknowledged) < 100 {
		t.Fatalf("only %d writes were acknowledged", len(acknowledged))
	}
	list := get(t, s.admin("/api/v1/namespaces/kill/baremetalhosts")).body
	lost := 0
	for name := range acknowledged {
		if !strings.Contains(list, `"name":"`+name+`"`) {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged objects are lost", lost, len(acknowledged))
	}
	t.Logf("%d acknowledged writes over 5 kills, none lost", len(acknowledged))
}

func createHost(ctx context.Context, s *server, name string) error {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":%q,"namespace":"kill"},"spec":{"image":"localboot"}}`, name)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.admin("/api/v1/namespaces/kill/baremetalhosts"),
		strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// TestInformer: a client-go informer sees writes from before and after a kill -9.
func TestInformer(t *testing.T) {
	needs(t)
	s := start(t)
	client, err := dynamic.NewForConfig(&rest.Config{Host: s.admin("")})
	if err != nil {
		t.Fatal(err)
	}
	create := func(name string) {
		t.Helper()
		_, err := client.Resource(hosts).Namespace("rack").Create(t.Context(),
			&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "BareMetalHost", "metadata": map[string]any{"name": name},
				"spec": map[string]any{"image": "localboot"},
			}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	create("before")
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	informer := factory.ForResource(hosts)
	lister := informer.Lister()
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	has := func(name string) func() bool {
		return func() bool { _, err := lister.ByNamespace("rack").Get(name); return err == nil }
	}
	testkit.Until(t, "the informer has the first host", has("before"))
	s.kill()
	s.restart()
	create("after")
	testkit.Until(t, "the informer has the host made after the restart", has("after"))
	if err := client.Resource(hosts).Namespace("rack").Delete(t.Context(), "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the informer saw the deletion", func() bool { return !has("before")() })
}

// TestSecondServer: the folder of a running server is refused, and its holder named.
func TestSecondServer(t *testing.T) {
	needs(t)
	s := start(t)
	second := exec.Command(program, "serve", "--data-dir", s.dir, "--listen", "127.0.0.1:0", "--listen-tls", "")
	out, err := second.CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, part := range []string{"error: ", "hint: ", fmt.Sprint(s.cmd.Process.Pid)} {
		if !strings.Contains(string(out), part) {
			t.Errorf("lacks %q:\n%s", part, out)
		}
	}
}
