package cli

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"glowplug/internal/store/natsd/natstest"
)

// natsCommands are commands of scripts: "nats NAME" starts a NATS server of its own,
// whose URL is $NAME from then on, and "natsput NAME BUCKET N" stores N objects in it.
func natsCommands(t *testing.T) map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"nats": func(ts *testscript.TestScript, _ bool, args []string) {
			if len(args) != 1 {
				ts.Fatalf("usage: nats NAME")
			}
			ts.Setenv(args[0], natstest.Start(t).URL())
		},
		"natsput": func(ts *testscript.TestScript, _ bool, args []string) {
			if len(args) != 3 {
				ts.Fatalf("usage: natsput NAME BUCKET N")
			}
			n, err := strconv.Atoi(args[2])
			ts.Check(err)
			js := natstest.JetStream(t, ts.Getenv(args[0]))
			kv, err := js.CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: args[1]})
			ts.Check(err)
			for i := range n {
				_, err := kv.Put(t.Context(), fmt.Sprint("default/object-", i), []byte("{}"))
				ts.Check(err)
			}
		},
	}
}
