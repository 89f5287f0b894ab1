package boots

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/testkit"
)

// selecting returns the options of a list or a watch with a field selector.
func selecting(selector string) storage.ListOptions {
	parsed := fields.ParseSelectorOrDie(selector)
	return storage.ListOptions{Recursive: true, Predicate: storage.SelectionPredicate{
		Label: labels.Everything(), Field: parsed, GetAttrs: func(obj runtime.Object) (labels.Set, fields.Set, error) {
			b := obj.(*v1.Boot)
			return nil, fields.Set{"host": b.Host, "outcome": b.Outcome, "metadata.name": b.Name}, nil
		},
	}}
}

// pages lists by pages of some length, 0 for one without a limit, and calls between after each.
func (l *lab) pages(t testing.TB, key, selector string, limit int64, between func(page int)) (names []string) {
	t.Helper()
	opts := selecting(selector)
	opts.Predicate.Limit = limit
	for page := 0; ; page++ {
		list := &v1.BootList{}
		if err := l.GetList(t.Context(), key, opts, list); err != nil {
			t.Fatal(err)
		}
		if list.ResourceVersion == "" || limit > 0 && int64(len(list.Items)) > limit {
			t.Fatalf("a page of %d boots at %q", len(list.Items), list.ResourceVersion)
		}
		for _, b := range list.Items {
			names = append(names, b.Namespace+"/"+b.Name)
		}
		if list.Continue == "" {
			return names
		}
		opts.Predicate.Continue = list.Continue
		between(page)
	}
}

func nothing(int) {}

// filled has 20 hosts in g10 and one in g11. Host i of g10 has i+1 boots, the first of which is 1.
func filled(t testing.TB) (l *lab, all []string) {
	l = newLab(t, kvstore.Options{})
	for number := int64(1); number <= 20; number++ {
		for host := number - 1; host < 20; host++ {
			b := boot("g10", fmt.Sprintf("node-%d", host), number)
			l.begin(t, b)
			all = append(all, "g10/"+b.Name)
		}
	}
	l.begin(t, boot("g11", "node-1", 30))
	return l, append(all, "g11/node-1.30")
}

// TestListHasEveryBootOnce: the pages go from the newest boots over all of the history, also while boots begin.
func TestListHasEveryBootOnce(t *testing.T) {
	t.Parallel()
	l, all := filled(t)
	slices.Sort(all)
	for _, limit := range []int64{0, 1000, 50, 7} {
		got := l.pages(t, "/boots", "", limit, nothing)
		if want := []string{"g11/node-1.30", "g10/node-19.20", "g10/node-18.19"}; !slices.Equal(got[:3], want) {
			t.Errorf("by pages of %d the list begins with %q, want %q", limit, got[:3], want)
		}
		if got[21] != "g10/node-19.19" || got[len(got)-1] != "g10/node-1.1" {
			t.Errorf("by pages of %d the history is from %s to %s", limit, got[21], got[len(got)-1])
		}
		if slices.Sort(got); !slices.Equal(got, all) {
			t.Errorf("by pages of %d: %d boots, want %d", limit, len(got), len(all))
		}
	}
	number := int64(50)
	got := l.pages(t, "/boots", "", 7, func(int) {
		for _, host := range []int{0, 3, 12, 19} {
			l.begin(t, boot("g10", fmt.Sprintf("node-%d", host), number))
		}
		number++
	})
	if slices.Sort(got); !slices.Equal(got, all) {
		t.Errorf("while boots begin: %d boots, want %d", len(got), len(all))
	}
}

// TestListBeyondTheWindow: the state of the bucket at the first page is not known any more. No boot is there twice.
func TestListBeyondTheWindow(t *testing.T) {
	t.Parallel()
	l := newLab(t, kvstore.Options{WindowBytes: 1})
	for i := range 10 {
		l.begin(t, boot("g10", fmt.Sprintf("node-%d", i), 1))
	}
	number := int64(2)
	got := l.pages(t, "/boots", "", 3, func(int) {
		for i := range 10 {
			l.begin(t, boot("g10", fmt.Sprintf("node-%d", i), number))
		}
		number++
	})
	if slices.Sort(got); len(got) < 3 || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("%q", got)
	}
}

// TestHistoryNeverHasWhatTheBucketHas: a server ended after it had written into the history, and before it wrote
// the next boot into the bucket.
func TestHistoryNeverHasWhatTheBucketHas(t *testing.T) {
	t.Parallel()
	l := newLab(t, kvstore.Options{})
	l.begin(t, boot("g10", "one", 1))
	l.begin(t, boot("g10", "one", 2))
	l.history.mustAppend(t, boot("g10", "one", 2))
	if got := l.pages(t, "/boots/g10", "", 0, nothing); !slices.Equal(got, []string{"g10/one.2", "g10/one.1"}) {
		t.Errorf("%q", got)
	}
}

func TestListSelects(t *testing.T) {
	t.Parallel()
	l, all := filled(t)
	count := func(select_ func(name string) bool) (n int) {
		for _, name := range all {
			if select_(name) {
				n++
			}
		}
		return n
	}
	failed := count(func(name string) bool { return strings.HasSuffix(name, ".9") || strings.HasSuffix(name, ".19") })
	for _, test := range []struct {
		key, selector string
		want          int
	}{
		{"/boots/g10", "", 210}, {"/boots/g11", "", 1}, {"/boots/g12", "", 0}, {"/boots/g1", "", 0},
		{"/boots/g10", "host=node-1", 2}, {"/boots", "host=node-1", 3}, {"/boots/g10", "host=node-99", 0},
		{"/boots", "outcome=Failed", failed}, {"/boots/g10", "host=node-19,outcome=Failed", 2},
		{"/boots/g10", "host!=node-19", 190}, {"/boots", "metadata.name=node-1.1", 1}, {"/boots", "host=", 0},
	} {
		for _, limit := range []int64{0, 3} {
			if got := l.pages(t, test.key, test.selector, limit, nothing); len(got) != test.want {
				t.Errorf("%s %s by pages of %d: %d boots, want %d", test.key, test.selector, limit, len(got), test.want)
			}
		}
	}
	for name, want := range map[string]int{"node-19.20": 1, "node-19.5": 1, "node-19.21": 0, "node-19": 0} {
		opts, list := selecting("metadata.name="+name), &v1.BootList{}
		opts.Recursive = false
		if err := l.GetList(t.Context(), "/boots/g10/"+name, opts, list); err != nil || len(list.Items) != want {
			t.Errorf("%s: %d boots, %v", name, len(list.Items), err)
		}
	}
	// Those of machines that are no hosts have an empty host, and no history.
	for number := range int64(3) {
		b := boot("g12", "unknown_52-54-00-00-00-01", number)
		b.Host = ""
		l.begin(t, b)
		l.begin(t, boot("g12", "node-1", number))
	}
	if got := l.pages(t, "/boots/g12", "host=", 2, nothing); !slices.Equal(got, []string{"g12/unknown_52-54-00-00-00-01.2"}) {
		t.Errorf("%q", got)
	}
	opts := selecting("")
	opts.Predicate.Continue = "nonsense"
	if err := l.GetList(t.Context(), "/boots", opts, &v1.BootList{}); !apierrors.IsBadRequest(err) {
		t.Errorf("%v", err)
	}
}

func TestStorageGet(t *testing.T) {
	t.Parallel()
	l, _ := filled(t)
	for name, found := range map[string]bool{"node-19.20": true, "node-19.3": true, "node-19.21": false, "node-20.1": false,
		"node-19": false} {
		b := &v1.Boot{}
		err := l.Get(t.Context(), "/boots/g10/"+name, storage.GetOptions{}, b)
		if found && (err != nil || b.Name != name || b.Config == nil) || !found && !storage.IsNotFound(err) {
			t.Errorf("%s: %v, %v", name, b.Name, err)
		}
		if err := l.Get(t.Context(), "/boots/g10/"+name, storage.GetOptions{IgnoreNotFound: true}, b); err != nil ||
			(b.Name == name) != found {
			t.Errorf("%s: %v, %v", name, b.Name, err)
		}
	}
}

// TestWatchSeesEachBootBegin: the next boot of a host is added, and none is deleted.
func TestWatchSeesEachBootBegin(t *testing.T) {
	t.Parallel()
	l := newLab(t, kvstore.Options{})
	l.begin(t, boot("g10", "one", 1))
	watches := map[string]watch.Interface{}
	for name, o := range map[string]struct {
		key  string
		opts storage.ListOptions
	}{
		"all": {"/boots/", selecting("")}, "host": {"/boots/g10/", selecting("host=one")},
		"other": {"/boots/g10/", selecting("host=two")}, "failed": {"/boots/g10/", selecting("outcome=Failed")},
		"name": {"/boots/g10/one.9", selecting("metadata.name=one.9")},
	} {
		o.opts.Recursive, o.opts.ResourceVersion = name != "name", "0"
		w, err := l.Watch(t.Context(), o.key, o.opts)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		watches[name] = w
	}
	changed := boot("g10", "one", 1)
	changed.Reason = "changed"
	l.begin(t, changed)
	for _, next := range []*v1.Boot{boot("g10", "one", 9), boot("g10", "one", 10), boot("g10", "two", 1)} {
		l.begin(t, next)
	}
	for name, want := range map[string][]string{
		"all":  {"ADDED one.1", "MODIFIED one.1", "ADDED one.9", "ADDED one.10", "ADDED two.1"},
		"host": {"ADDED one.1", "MODIFIED one.1", "ADDED one.9", "ADDED one.10"}, "other": {"ADDED two.1"},
		"failed": {"ADDED one.9"}, "name": {"ADDED one.9"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		var got []string
		for ctx.Err() == nil {
			select {
			case e := <-watches[name].ResultChan():
				got = append(got, string(e.Type)+" "+e.Object.(*v1.Boot).Name)
			case <-ctx.Done():
			}
		}
		cancel()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	l, _ := filled(t)
	if err := l.Empty(t.Context(), "g10"); err != nil {
		t.Fatal(err)
	}
	if got := l.pages(t, "/boots", "", 0, nothing); !slices.Equal(got, []string{"g11/node-1.30"}) {
		t.Errorf("%q", got)
	}
	l.begin(t, boot("g10", "node-1", 1)) // numbers begin again
	l.begin(t, boot("g10", "node-1", 2))
	if got := l.pages(t, "/boots/g10", "", 0, nothing); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// TestSelectedPageIsBounded: of more hosts than a page reads, a selector selects the one whose boot began first.
func TestSelectedPageIsBounded(t *testing.T) {
	testkit.NeedsThorough(t)
	l := newLab(t, kvstore.Options{})
	l.begin(t, boot("g11", "first", 0))
	fill(t, l, maxScan+1000, 1)
	pages := 1
	got := l.pages(t, "/boots", "host!=x,metadata.name=first.0", 5, func(int) { pages++ })
	if len(got) != 1 || pages != 1 { // the name says which host it is
		t.Errorf("%q on %d pages", got, pages)
	}
	pages = 1
	got = l.pages(t, "/boots", "outcome=Provisioned,metadata.name!=x", 100_000, func(int) { pages++ })
	if len(got) != maxScan+1001 || pages != 1 {
		t.Errorf("%d boots on %d pages", len(got), pages)
	}
	pages = 1
	if got = l.pages(t, "/boots", "outcome=Failed", 5, func(int) { pages++ }); len(got) != 0 || pages != 2 {
		t.Errorf("%q on %d pages", got, pages)
	}
}

// TestFirstPage: of 100,000 boots in the history, and 2,000 hosts.
func TestFirstPage(t *testing.T) {
	testkit.NeedsThorough(t)
	l := newLab(t, kvstore.Options{})
	fill(t, l, 2000, 51)
	for _, o := range []struct {
		key, selector string
	}{{"/boots", ""}, {"/boots/g10", ""}, {"/boots/g10", "host=node-7"}, {"/boots", "outcome=Failed"}} {
		opts := selecting(o.selector)
		opts.Predicate.Limit = 500
		list := &v1.BootList{}
		for page := range 8 {
			began := time.Now()
			if err := l.GetList(t.Context(), o.key, opts, list); err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			t.Logf("%s %q page %d: %d boots in %v", o.key, o.selector, page, len(list.Items), took)
			if took > 300*time.Millisecond && o.selector != "outcome=Failed" {
				t.Errorf("%s %q page %d took %v", o.key, o.selector, page, took)
			}
			if opts.Predicate.Continue = list.Continue; list.Continue == "" {
				break
			}
		}
	}
}

// fill stores boots of hosts, the last of each in the bucket and the others in the history.
func fill(t testing.TB, l *lab, hosts int, boots int64) {
	t.Helper()
	for number := int64(1); number <= boots; number++ {
		for from := 0; from < hosts; from += 1000 {
			var batch []*v1.Boot
			var puts []kvstore.Put
			for host := from; host < min(from+1000, hosts); host++ {
				b := boot("g10", fmt.Sprintf("node-%d", host), number)
				batch = append(batch, b)
				puts = append(puts, kvstore.Put{Key: fmt.Sprintf("g10/node-%d", host), Object: b})
			}
			if number < boots {
				l.history.mustAppend(t, batch...)
			} else if _, err := l.bucket.PutAll(t.Context(), puts); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// BenchmarkList lists the newest page of a million boots, as kubectl get boots --limit 500 does. 1,000 hosts have one
// in the bucket and 999 in the history.
func BenchmarkList(b *testing.B) {
	const hosts, each = 1000, 1000
	l := newLab(b, kvstore.Options{})
	for number := int64(1); number < each; number++ {
		boots := make([]*v1.Boot, hosts)
		for host := range boots {
			boots[host] = boot("g10", fmt.Sprintf("node-%d", host), number)
		}
		l.history.mustAppend(b, boots...)
	}
	var puts []kvstore.Put
	for host := range hosts {
		newest := boot("g10", fmt.Sprintf("node-%d", host), each)
		puts = append(puts, kvstore.Put{Key: "g10/" + newest.Host, Object: newest})
	}
	if _, err := l.bucket.PutAll(b.Context(), puts); err != nil {
		b.Fatal(err)
	}
	info, err := l.history.info(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	page := func(limit int64, from string) string {
		opts, list := selecting(""), &v1.BootList{}
		opts.Predicate.Limit, opts.Predicate.Continue = limit, from
		if err := l.GetList(b.Context(), "/boots", opts, list); err != nil || int64(len(list.Items)) != limit {
			b.Fatalf("%d boots: %v", len(list.Items), err)
		}
		return list.Continue
	}
	history := page(hosts, "")
	for name, from := range map[string]string{"of_the_bucket": "", "of_the_history": history} {
		b.Run(fmt.Sprintf("500_%s_%d_bytes_on_disk_for_a_boot", name, info.State.Bytes/info.State.Msgs), func(b *testing.B) {
			for b.Loop() {
				page(500, from)
			}
		})
	}
}
