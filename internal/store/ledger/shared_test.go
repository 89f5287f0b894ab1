package ledger

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"glowplug/internal/store/natsd/natstest"
)

// TestShare: the servers of a store share one record, and none of them loses what another one
// writes at the same time.
func TestShare(t *testing.T) {
	js := natstest.JetStream(t, natstest.Start(t).URL())
	var writing sync.WaitGroup
	for i := range 4 {
		k := keep(open(t, t.TempDir()))
		writing.Go(func() {
			err := k.Share(t.Context(), js, func(record []byte) ([]byte, error) {
				return fmt.Appendf(record, "%d ", i), nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	dir := t.TempDir()
	k := keep(open(t, dir))
	look := func() (found []byte) {
		t.Helper()
		err := k.Share(t.Context(), js, func(record []byte) ([]byte, error) {
			found = bytes.Clone(record)
			return nil, nil
		})
		if err != nil {
			t.Error(err)
		}
		return found
	}
	if got := look(); len(strings.Fields(string(got))) != 4 {
		t.Errorf("the record is %q", got)
	}
	if err := k.Forget(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	if got := look(); len(got) != 0 {
		t.Errorf("the record is still %q", got)
	}

	// A store that is not ours is neither read nor written.
	other := natstest.JetStream(t, natstest.Start(t).URL())
	refused(t, k.Share(t.Context(), other, func([]byte) ([]byte, error) {
		t.Error("the record of another store is read")
		return nil, nil
	}), "store init")
}

// TestServerID: a server keeps its id, also on another store, and shares it with none.
func TestServerID(t *testing.T) {
	dir := t.TempDir()
	id := func(l *Ledger) string {
		t.Helper()
		id, err := l.Server()
		if err != nil || id == "" {
			t.Fatalf("%q, %v", id, err)
		}
		return id
	}
	l := open(t, dir)
	first := id(l)
	if err := l.replace(newRecord(External)); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if again := id(open(t, dir)); again != first {
		t.Errorf("%s was %s", again, first)
	}
	if other := id(open(t, t.TempDir())); other == first {
		t.Error("two servers have one id")
	}
}
