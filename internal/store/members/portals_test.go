package members

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kvstore"
)

// TestPortalsOfTheSameBytes: of the other servers only those are a machine's that run and give the same bytes.
func TestPortalsOfTheSameBytes(t *testing.T) {
	const image = "rack/live@0123456789ab"
	for name, c := range map[string]struct {
		change func(all map[string]*v1.MemberStatus)
		want   string
	}{
		"all":             {func(map[string]*v1.MemberStatus) {}, "192.0.2.3:3260 192.0.2.1:3260"},
		"missing":         {func(all map[string]*v1.MemberStatus) { all["c"].State = v1.MemberMissing }, "192.0.2.1:3260"},
		"stopped":         {func(all map[string]*v1.MemberStatus) { all["c"].State = v1.MemberStopped }, "192.0.2.1:3260"},
		"failing":         {func(all map[string]*v1.MemberStatus) { all["c"].State = v1.MemberNotReady }, "192.0.2.1:3260"},
		"another version": {func(all map[string]*v1.MemberStatus) { all["c"].Version = "2" }, "192.0.2.1:3260"},
		"another URL":     {func(all map[string]*v1.MemberStatus) { all["c"].HTTP = "http://c" }, "192.0.2.1:3260"},
		"other bytes":     {func(all map[string]*v1.MemberStatus) { all["c"].Images[0] += "x" }, "192.0.2.1:3260"},
		"no portal":       {func(all map[string]*v1.MemberStatus) { all["c"].Portal = "" }, "192.0.2.1:3260"},
		"a portal with a zone": {func(all map[string]*v1.MemberStatus) { all["c"].Portal = "[fe80::1%x\nshell]:3260" },
			"192.0.2.1:3260"},
		"a shared portal": {func(all map[string]*v1.MemberStatus) { all["c"].Portal = all["b"].Portal }, "192.0.2.1:3260"},
		"the same portal twice": {func(all map[string]*v1.MemberStatus) { all["c"].Portal = all["a"].Portal },
			"192.0.2.1:3260"},
		"many": {func(all map[string]*v1.MemberStatus) {
			all["bb"] = new(*all["a"])
			all["bb"].ID, all["bb"].Portal = "id-bb", "192.0.2.9:3260"
		}, "192.0.2.9:3260 192.0.2.3:3260"},
		"itself is not ready": {func(all map[string]*v1.MemberStatus) { all["b"].State = v1.MemberNotReady }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			all := map[string]*v1.MemberStatus{}
			for n, name := range []string{"a", "b", "c"} {
				all[name] = &v1.MemberStatus{ID: "id-" + name, State: v1.MemberReady, Version: "1", HTTP: "http://vip",
					Images: []string{image}, Portal: fmt.Sprintf("192.0.2.%d:3260", n+1)}
			}
			c.change(all)
			book := New(Options{Server: "id-b", Host: "b"})
			for name, status := range all {
				m := &v1.Member{Status: *status}
				m.Name = name
				value, err := json.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				book.Put(kvstore.Item{Key: name, Value: value})
			}
			var got []string
			for _, portal := range book.Portals(image) {
				got = append(got, portal.String())
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			book.pace.missing = time.Nanosecond
			if got := book.Portals(image); got != nil {
				t.Errorf("servers that were not seen of late: %v", got)
			}
		})
	}
}
