package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
)

// TestAViewWithinAViewDoesNotWait has a writer go on, and be done, beside a View, and
// another View taken after that and before the first one ends.
func TestAViewWithinAViewDoesNotWait(t *testing.T) {
	inv := New(Options{})
	hosts := inv.Hosts()
	outer := inv.View()
	written := make(chan struct{})
	go func() {
		defer close(written)
		hosts.Put(item(t, 1, hostObject("a", "h", 0, 1, 1)))
	}()
	select {
	case <-written:
	case <-time.After(10 * time.Second):
		t.Fatal("a writer waits for a View")
	}
	inner := inv.View()
	if inner.HostByMAC(mac(1)) == nil || outer.HostByMAC(mac(1)) != nil {
		t.Error("a View is not of its time")
	}
}

// TestAViewDoesNotWaitForAWriter takes a View in the middle of an update.
func TestAViewDoesNotWaitForAWriter(t *testing.T) {
	inv := New(Options{})
	viewed := make(chan struct{})
	inv.update(func(v model.View) model.View {
		go func() {
			defer close(viewed)
			inv.View()
		}()
		select {
		case <-viewed:
		case <-time.After(10 * time.Second):
			t.Error("a View waits for a writer")
		}
		return v
	})
	<-viewed
}

// TestAViewStaysAsItIs has writers go on while a View is read: all that is found in it
// agrees with itself.
func TestAViewStaysAsItIs(t *testing.T) {
	inv := New(Options{})
	hosts, configs := inv.Hosts(), inv.Configs()
	write := func(round int) {
		for i := range 20 {
			name := fmt.Sprint("h", i)
			hosts.Put(item(t, uint64(round), hostObject("a", name, 0, 1+(i+round)%20, 1+(i+round)%20)))
		}
		c := configItem(round % 5)
		c.Revision = uint64(round)
		configs.Put(c)
	}
	write(0)
	done := make(chan struct{})
	var writers sync.WaitGroup
	writers.Go(func() {
		for round := 1; ; round++ {
			select {
			case <-done:
				return
			default:
				write(round)
			}
		}
	})
	picture := func(v model.View) string {
		var lines []string
		for _, h := range v.Hosts() {
			byMAC, byIP := v.HostByMAC(h.MACs[0]), v.HostByIP(h.IPs[0])
			lines = append(lines, fmt.Sprint(h.Ref, h.Revision, byMAC.Ref, byIP.Ref, v.Host(h.Ref) == h))
		}
		for _, r := range v.Rules() {
			lines = append(lines, fmt.Sprint(r.Ref, v.Config(r.Ref).Revision, r.Config == v.Config(r.Ref)))
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	for range 100 {
		v := inv.View()
		first := picture(v)
		if second := picture(v); first != second || strings.Contains(first, "false") {
			t.Fatalf("a View changed from\n%s\nto\n%s", first, second)
		}
	}
	close(done)
	writers.Wait()
}

func TestImageByIQN(t *testing.T) {
	inv := New(Options{})
	images := inv.Images()
	stored := func(name, iqn string, age int64) kvstore.Item {
		i := &v1.ISCSICdrom{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1000-age, 0)),
		}}
		i.Status.TargetIQN = iqn
		return item(t, 1, i)
	}
	check := func(iqn, want string) {
		t.Helper()
		got := ""
		if i := inv.View().ImageByIQN(iqn); i != nil {
			got = i.Name
		}
		if got != want {
			t.Errorf("%s is %q, want %q", iqn, got, want)
		}
	}
	images.Load([]kvstore.Item{stored("new", "iqn.x:One", 1), stored("old", "iqn.x:ONE", 2), stored("none", "", 3)})
	check("iqn.X:one", "old")
	images.Delete("a/old", 2)
	check("iqn.x:one", "new")
	images.Put(stored("new", "iqn.x:two", 1))
	check("iqn.x:one", "")
	check("IQN.x:two", "new")
	check("", "")
}
