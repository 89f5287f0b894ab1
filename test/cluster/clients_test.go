package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

const (
	clients = 9
	keys    = 20
	// pace is the mean pause of a client between two calls.
	pace = 30 * time.Millisecond
)

// runClients lets clients write and read a round's objects until ctx ends. One third
// of them stays with each server, and one third goes from one to the other.
func (c *cluster) runClients(ctx context.Context, round string, seed uint64) (wait func()) {
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			client{cluster: c, number: i, round: round, random: rand.New(rand.NewPCG(seed, uint64(i))),
				versions: map[string]string{}}.run(ctx)
		})
	}
	return group.Wait
}

type client struct {
	*cluster
	number   int
	round    string
	random   *rand.Rand
	versions map[string]string // that it has seen of each object
}

func (c client) run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		server := c.servers[c.number%2]
		if c.number%3 == 2 {
			server = c.servers[c.random.IntN(2)]
		}
		op := c.next(n)
		op.server = server.at.name
		from := c.history.now()
		// A call that was begun is awaited: its outcome is worth more than an early end.
		a, text := server.call(context.WithoutCancel(ctx), op)
		switch {
		case text == "":
			c.history.add(c.number, from, op, a)
			c.learn(op, a)
		default:
			c.history.count(op.operation.String() + " " + text)
			if !strings.HasPrefix(text, "503") && !strings.HasPrefix(text, "429") {
				c.t.Errorf("%s %s at %s: %s", op.operation, op.object, server.at.name, text)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(c.random.Int64N(int64(2 * pace)))):
		}
	}
}

// next chooses an operation. A value names its writer, so that a history reads well.
func (c client) next(n int) call {
	op := call{object: fmt.Sprintf("%s-%02d", c.round, c.random.IntN(keys)), value: fmt.Sprintf("c%d.%d", c.number, n)}
	version, seen := c.versions[op.object]
	switch draw := c.random.IntN(100); {
	case draw < 35:
		op.operation, op.value = read, ""
	case draw < 50 || !seen && draw < 75:
		op.operation = create
	case draw < 75:
		op.operation, op.version = replace, version
	case draw < 90:
		op.operation = put
	default:
		op.operation, op.value = remove, ""
	}
	return op
}

// learn keeps the version for the next replace.
func (c client) learn(op call, a answer) {
	switch {
	case a.outcome == done && op.operation != remove:
		c.versions[op.object] = a.version
	case a.outcome != unknown:
		delete(c.versions, op.object)
	}
}
