package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/natsd/natstest"
	"glowplug/internal/testkit"
)

// TestJetStreamQuota fills an account of an external NATS: writes are refused with
// 507 and the remedy before the quota is reached, events before objects, every
// delete is done, and then writes are.
func TestJetStreamQuota(t *testing.T) {
	needs(t)
	for _, c := range []struct{ name, accounts, url, flag string }{
		{"the account's quota", "accounts { A { jetstream { max_file: 32MB, max_mem: 8MB }, users [ {user: a, password: " +
			"a} ] } }\n", "nats://a:a@127.0.0.1:", ""},
		{"the server's quota", "", "nats://127.0.0.1:", "32Mi"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nats := newNATS(t)
			limit := ""
			if c.flag != "" {
				limit = ", max_file: 32MB"
			}
			write(t, filepath.Join(nats.dir, "nats.conf"), fmt.Sprintf(
				"listen: 127.0.0.1:%s\nmax_payload: 16MB\njetstream { store_dir: %q, sync_interval: always%s }\n%s", nats.port,
				filepath.Join(nats.dir, "js"), limit, c.accounts))
			nats.start()
			args := []string{"--nats-url", c.url + nats.port}
			if c.flag != "" {
				args = append(args, "--nats-max-bytes", c.flag)
			}
			s := start(t, args...)
			fillAndEmpty(t, s)
			strangerFills(t, s, c.url+nats.port)
		})
	}
}

// strangerFills fills the account by another program until NATS refuses the
// smallest message: objects are read and deleted all the same, after a restart in
// the full account as well.
func strangerFills(t *testing.T, s *server, natsURL string) {
	for i := range 20 {
		createConfigMap(t, s, fmt.Sprint("kept-", i), 100)
	}
	testkit.Until(t, "the ballast is whole", func() bool {
		_, ballast, _ := strings.Cut(get(t, s.url("/metrics")).body, "\nglowplug_store_ballast_bytes ")
		ballast, _, _ = strings.Cut(ballast, "\n")
		bytes, err := strconv.ParseFloat(ballast, 64)
		return err == nil && bytes >= 1<<20
	})
	js := natstest.JetStream(t, natsURL)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "STRANGER",
		Subjects: []string{"stranger"}}); err != nil {
		t.Fatal(err)
	}
	fill := func(size int) {
		for ; size >= 1; size /= 8 {
			for {
				_, err := js.Publish(t.Context(), "stranger", make([]byte, size))
				var full *jetstream.APIError
				if errors.As(err, &full) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	fill(64 << 10)
	for i := range 20 {
		if i == 10 {
			s.kill()
			s.restart()
		}
		path := s.admin("/api/v1/namespaces/default/configmaps/kept-" + fmt.Sprint(i))
		if a := get(t, path); a.status != http.StatusOK {
			t.Errorf("a read in a full account: %d %s", a.status, a.body)
		}
		if a := request(t, "DELETE", path, ""); a.status != http.StatusOK {
			t.Fatalf("delete %d of 20 in an account that a stranger has filled: %d %s", i, a.status, a.body)
		}
		fill(512)
	}
}

func createConfigMap(t *testing.T, s *server, name string, bytes int) answer {
	t.Helper()
	return request(t, "POST", s.admin("/api/v1/namespaces/default/configmaps"),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"a":%q}}`, name, strings.Repeat("x",
			bytes)), "Content-Type", "application/json")
}

func fillAndEmpty(t *testing.T, s *server) {
	var names []string
	refused := answer{}
	for i := range 100 {
		name := fmt.Sprint("c-", i)
		a := createConfigMap(t, s, name, 900_000)
		if a.status != http.StatusCreated {
			refused = a
			break
		}
		names = append(names, name)
	}
	if refused.status != http.StatusInsufficientStorage || !strings.Contains(refused.body, "max_file") ||
		!strings.Contains(refused.body, "delete objects") {
		t.Fatalf("after %d objects: %d %s", len(names), refused.status, refused.body)
	}
	if len(names) < 20 {
		t.Errorf("only %d MB were taken of 32", len(names))
	}
	event := `{"apiVersion":"v1","kind":"Event","metadata":{"name":"e","namespace":"default"},"involvedObject":{"kind":"ConfigMap","namespace":"default","name":"a"},"reason":"R","message":"m","type":"Normal"}`
	if a := request(t, "POST", s.admin("/api/v1/namespaces/default/events"), event, "Content-Type",
		"application/json"); a.status != http.StatusInsufficientStorage {
		t.Errorf("an event: %d %s", a.status, a.body)
	}
	for _, name := range names {
		if a := request(t, "DELETE", s.admin("/api/v1/namespaces/default/configmaps/"+name), ""); a.status != http.StatusOK {
			t.Fatalf("a delete in a full store: %d %s", a.status, a.body)
		}
	}
	var list struct{ Items []any }
	if a := get(t, s.admin("/api/v1/namespaces/default/configmaps")); json.Unmarshal([]byte(a.body), &list) != nil ||
		len(list.Items) > 0 {
		t.Errorf("%d objects are left", len(list.Items))
	}
	testkit.Until(t, "writes are taken again", func() bool {
		return request(t, "POST", s.admin("/api/v1/namespaces/default/events"), event, "Content-Type",
			"application/json").status == http.StatusCreated
	})
}
