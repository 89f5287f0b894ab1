package e2e

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/testkit"
)

// members returns the Members as a server has them, by their ids.
func (s *server) members() map[string]v1.MemberStatus {
	s.t.Helper()
	var list v1.MemberList
	if a := get(s.t, s.admin("/api/v1/members")); a.status != 200 || json.Unmarshal([]byte(a.body), &list) != nil {
		s.t.Fatalf("%d %s", a.status, a.body)
	}
	all := map[string]v1.MemberStatus{}
	for _, m := range list.Items {
		all[m.Name] = m.Status
	}
	return all
}

// leader returns the name of the Member that leads some work, as a server has them; "": none.
func (s *server) leader(work string) string {
	for name, m := range s.members() {
		if slices.Contains(m.Leads, work) {
			return name
		}
	}
	return ""
}

// TestServersSeeEachOther: of two servers on one NATS each sees the other. The lead of one that is killed is taken over
// within 10 s, and it is missing after a while; one that is stopped says so.
func TestServersSeeEachOther(t *testing.T) {
	needs(t)
	nats := newNATS(t)
	nats.start()
	shared := []string{"--nats-url", "nats://127.0.0.1:" + nats.port, "--pki-dir", filepath.Join(t.TempDir(), "pki")}
	one := start(t, shared...)
	testkit.Until(t, "the first server leads", func() bool { return one.leader("members") != "" })
	first := one.leader("members")
	two := start(t, shared...)
	testkit.Until(t, "each server sees the other ready", func() bool {
		for _, s := range []*server{one, two} {
			ready := 0
			for _, m := range s.members() {
				if m.State == v1.MemberReady && m.Store == "NATS" && m.HTTPS != "" {
					ready++
				}
			}
			if ready != 2 {
				return false
			}
		}
		return true
	})
	second := ""
	for name := range two.members() {
		if name != first {
			second = name
		}
	}
	if !strings.HasPrefix(second, first+"-") {
		t.Errorf("the servers of one machine are %s and %s", first, second)
	}
	one.kill()
	killed := time.Now()
	testkit.Within(t, 12*time.Second, "the second server leads, and says so", func() bool { return two.leader("members") == second })
	t.Logf("the second server led %s after the first was killed", time.Since(killed).Round(time.Millisecond))
	testkit.Within(t, 50*time.Second, "the first one is missing", func() bool { return two.members()[first].State == v1.MemberMissing })
	if out := two.glowplug("status", "--kubeconfig", two.kubeconfig()); !strings.Contains(out, "server "+first+": missing") {
		t.Errorf("status: %s", out)
	}
	one.restart()
	testkit.Until(t, "the first one is back", func() bool { return two.members()[first].State == v1.MemberReady })
	two.terminate()
	testkit.Within(t, 5*time.Second, "the second one says that it was stopped, and the first leads", func() bool {
		return one.members()[second].State == v1.MemberStopped && one.leader("members") == first
	})
	if table := one.kubectl("", "get", "members"); !strings.Contains(table, "LEADS") || !strings.Contains(table, "Stopped") {
		t.Errorf("kubectl: %s", table)
	}
}
