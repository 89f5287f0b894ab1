package boots

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/kvstore"
)

// query is what a list or a watch asks for. "" stands for all namespaces, hosts or names.
type query struct {
	namespace, host, name string
	// strangers asks for the boots of unknown machines, which have no history.
	strangers bool
}

// queryOf returns what a storage key and the fields of a selector ask for.
func queryOf(key string, opts storage.ListOptions) (q query) {
	key = strings.Trim(strings.TrimPrefix(key, strings.TrimSuffix(prefix, "/")), "/")
	q.namespace, q.name, _ = strings.Cut(key, "/")
	name := q.name
	if selector := opts.Predicate.Field; selector != nil && name == "" {
		q.host, q.strangers = selector.RequiresExactMatch("host")
		q.strangers = q.strangers && q.host == ""
		name, _ = selector.RequiresExactMatch("metadata.name")
	}
	if host, _, ok := splitName(name); ok {
		q.host = host
	}
	return q
}

// place is where a list goes on, which its continue token says.
type place struct {
	// Revision is that of the bucket when the list began.
	Revision uint64 `json:"revision"`
	// Begun and Key are of the last boot that was read from the bucket.
	Begun string `json:"begun,omitempty"`
	Key   string `json:"key,omitempty"`
	// Before is the position in the history: the list continues with the boots before it. Earlier is true once the
	// list has reached the history; until then Before is the end of the history at the begin of the list.
	Before  uint64 `json:"before,omitempty"`
	Earlier bool   `json:"earlier,omitempty"`
}

// lister makes one page of a list.
type lister struct {
	*Storage
	query
	pred  storage.SelectionPredicate
	view  kvstore.View
	place place
	items []v1.Boot
	// more is whether the list goes on behind the page.
	more bool
	err  error
}

// GetList lists the newest boot of each host, that which began last first, and then those in the history, that which
// was superseded last first. A page may have fewer boots than its limit although the list goes on, since the history
// is read for a bounded time. The bucket is read as it was when the list began; if that is not known any more, a boot
// that was superseded since may be missing.
func (s *Storage) GetList(ctx context.Context, key string, opts storage.ListOptions, listObj runtime.Object) error {
	list, ok := listObj.(*v1.BootList)
	if !ok {
		return fmt.Errorf("a list of boots is not a %T", listObj)
	}
	l := &lister{Storage: s, query: queryOf(key, opts), pred: opts.Predicate, items: []v1.Boot{}}
	if err := l.begin(ctx, opts); err != nil {
		return err
	}
	if l.name != "" {
		l.one(ctx, key)
	} else {
		if !l.place.Earlier {
			l.newest(ctx)
		}
		if l.err == nil && !l.more {
			l.earlier(ctx)
		}
	}
	if l.err != nil {
		return l.err
	}
	token := ""
	if l.more {
		text, err := json.Marshal(l.place)
		if err != nil {
			return err
		}
		token = base64.RawURLEncoding.EncodeToString(text)
	}
	list.Items = l.items
	return s.Versioner().UpdateList(list, l.place.Revision, token, nil)
}

// begin finds the state of the bucket, and where the page begins.
func (l *lister) begin(ctx context.Context, opts storage.ListOptions) (err error) {
	if l.pred.Continue != "" {
		text, err := base64.RawURLEncoding.DecodeString(l.pred.Continue)
		if err == nil {
			err = json.Unmarshal(text, &l.place)
		}
		if err != nil {
			return apierrors.NewBadRequest("continue is not the token of a list of boots")
		}
		known := false
		if l.view, known = kvstore.ViewAt(l.bucket, l.place.Revision); !known {
			l.view, err = kvstore.ViewOf(ctx, l.bucket, "")
		}
		return err
	}
	if l.view, err = kvstore.ViewOf(ctx, l.bucket, opts.ResourceVersion); err != nil {
		return err
	}
	l.place.Revision = l.view.Revision()
	if opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		exact := false
		l.place.Revision, _ = l.Versioner().ParseResourceVersion(opts.ResourceVersion) // View has read it
		if l.view, exact = kvstore.ViewAt(l.bucket, l.place.Revision); !exact {
			return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
		}
	}
	// Without a history the newest boots can be listed; the pages after them have the error.
	l.place.Before, _ = l.history.end(ctx)
	return nil
}

// one lists the boot with a storage key.
func (l *lister) one(ctx context.Context, key string) {
	boot := &v1.Boot{}
	err := l.Get(ctx, key, storage.GetOptions{ResourceVersion: "0"}, boot)
	switch {
	case err == nil && l.selects(boot):
		l.items = append(l.items, *boot)
	case err != nil && !storage.IsNotFound(err):
		l.err = err
	}
}

func (l *lister) selects(boot *v1.Boot) bool {
	ok, err := l.pred.Matches(boot)
	return err == nil && ok
}

// add adds a boot, whose JSON has so many bytes. It returns false if that is the last one of the page.
func (l *lister) add(ctx context.Context, boot *v1.Boot, size int) bool {
	if l.err = kvstore.HoldItem(ctx, size); l.err != nil {
		return false
	}
	l.items = append(l.items, *boot)
	return l.pred.Limit <= 0 || int64(len(l.items)) < l.pred.Limit
}

// candidate is a boot in the bucket.
type candidate struct {
	begun []byte
	item  kvstore.Item
}

// compare says which boot comes first in a list.
func (c candidate) compare(other candidate) int {
	return cmp.Or(bytes.Compare(other.begun, c.begun), cmp.Compare(c.item.Key, other.item.Key))
}

// newest lists boots of the bucket.
func (l *lister) newest(ctx context.Context) {
	found, more := l.candidates()
	for _, c := range found {
		boot := &v1.Boot{}
		if l.err = l.view.Decode(c.item, boot); l.err != nil {
			return
		}
		l.place.Begun, l.place.Key = string(c.begun), c.item.Key
		if l.selects(boot) && !l.add(ctx, boot, len(c.item.Value)) {
			l.more = true
			return
		}
	}
	l.more = more
}

// candidates returns the boots of the bucket that may be on the page, in their order. more is whether there are more.
func (l *lister) candidates() (found []candidate, more bool) {
	keep := int(min(l.pred.Limit, math.MaxInt32)) // 0: all
	if keep > 0 && !l.pred.Empty() {
		keep = max(keep, maxScan)
	}
	sort := func() {
		slices.SortFunc(found, candidate.compare)
		if keep > 0 && len(found) > keep {
			found, more = found[:keep], true
		}
	}
	after := candidate{[]byte(l.place.Begun), kvstore.Item{Key: l.place.Key}}
	begins := ""
	if l.namespace != "" {
		begins = l.namespace + "/" + l.host
	}
	l.view.Each(begins, func(item kvstore.Item) {
		if _, host, _ := strings.Cut(item.Key, "/"); l.host != "" && l.host != host {
			return
		}
		c := candidate{begunOf(item.Value), item}
		if l.place.Key == "" || c.compare(after) > 0 {
			found = append(found, c)
		}
		if keep > 0 && len(found) > 2*keep {
			sort()
		}
	})
	sort()
	return found, more
}

// begunOf returns the time in the JSON of a boot, in a text whose order is that of the times. Only the objects behind
// that member can have one of the same name.
func begunOf(value []byte) []byte {
	_, begun, _ := bytes.Cut(value, []byte(`"begun":"`))
	begun, _, _ = bytes.Cut(begun, []byte(`"`))
	return begun
}

// earlier lists boots of the history.
func (l *lister) earlier(ctx context.Context) {
	if l.strangers {
		return
	}
	usual := maxWindow
	if l.pred.Empty() && l.pred.Limit > 0 {
		usual = min(usual, int(l.pred.Limit)-len(l.items))
	}
	newest := map[string]int64{}
	next, err := l.history.page(ctx, l.namespace, l.host, l.place.Before, usual, func(boot *v1.Boot, size int) bool {
		if !l.selects(boot) || boot.Number >= l.newestOf(newest, boot) {
			return true
		}
		return l.add(ctx, boot, size)
	})
	if err != nil {
		l.err = unavailable(err)
	}
	l.place = place{Revision: l.place.Revision, Before: next, Earlier: true}
	l.more = next > 0
}

// newestOf returns the number of the boot of a host that is in the bucket: it and those after it are not listed from
// the history. A server that ended after it had written into the history has not written into the bucket.
func (l *lister) newestOf(known map[string]int64, boot *v1.Boot) int64 {
	host, _, _ := splitName(boot.Name)
	key := boot.Namespace + "/" + host
	if number, ok := known[key]; ok {
		return number
	}
	newest := struct{ Number int64 }{boot.Number + 1} // without one in the bucket all are listed
	if item, ok := l.view.Get(key); ok {
		_ = json.Unmarshal(item.Value, &newest)
	}
	known[key] = newest.Number
	return newest.Number
}
