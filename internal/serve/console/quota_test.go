package console

import (
	"fmt"
	"testing"
)

// TestQuotas: a user has no more open than his share, all users together no more than the whole, and what has ended
// makes room.
func TestQuotas(t *testing.T) {
	q := newQuota(3, 2)
	first := q.begin("ann")
	if first == nil || q.begin("ann") == nil || q.begin("ann") != nil {
		t.Error("ann has not just two")
	}
	if q.begin("vic") == nil || q.begin("vic") != nil {
		t.Error("there are not just three in all")
	}
	if first(); q.begin("vic") == nil {
		t.Error("what has ended makes no room")
	}
	if q.begin("bob") != nil {
		t.Error(fmt.Sprint(q.open, " are open"))
	}
}
