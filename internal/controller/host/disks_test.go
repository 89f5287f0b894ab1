package host

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
)

// hostObjects are stored hosts, and the number of reads.
type hostObjects struct {
	values map[string]string
	reads  int
}

func (o *hostObjects) Get(_ context.Context, key string, _ storage.GetOptions, into runtime.Object) error {
	o.reads++
	value, ok := o.values[strings.TrimPrefix(key, "/baremetalhosts/")]
	if !ok {
		return storage.NewKeyNotFoundError(key, 0)
	}
	return json.Unmarshal([]byte(value), into)
}

// conditions keeps the last value of the condition DataPreserved.
type conditions struct{ last *explain.Condition }

func (c *conditions) Condition(_ *model.Host, condition explain.Condition) {
	if condition.Kind == model.DataPreserved {
		c.last = &condition
	}
}

const (
	wipes = `{"metadata":{"generation":1},"spec":{"type":"ignition","selector":{"default":true}},"compiled":{"artifact":` +
		// {"ignition":{"version":"3.4.0"},"storage":{"filesystems":[
		// {"device":"/dev/sdb","format":"xfs","wipeFilesystem":true}]}}
		`"eyJpZ25pdGlvbiI6eyJ2ZXJzaW9uIjoiMy40LjAifSwic3RvcmFnZSI6eyJmaWxlc3lzdGVtcyI6W3siZGV2aWNlIjoiL2Rldi9zZGIiLCJmb3JtY` +
		`XQiOiJ4ZnMiLCJ3aXBlRmlsZXN5c3RlbSI6dHJ1ZX1dfX0=","hash":"sha256:w","ignitionVersion":"3.4.0","generation":1}}`
	leaves = `{"metadata":{"generation":1},"spec":{"type":"ignition","selector":{"default":true}},"compiled":{"artifact":` +
		// {"ignition":{"version":"3.4.0"}}
		`"eyJpZ25pdGlvbiI6eyJ2ZXJzaW9uIjoiMy40LjAifX0=","hash":"sha256:l","ignitionVersion":"3.4.0","generation":1}}`
	withDisk = `{"metadata":{"namespace":"g10","name":"a"},"status":{"hardware":{"storage":[{"name":"/dev/sdb",` +
		`"sizeBytes":512110190592,"partitionTable":"none","content":{"type":"ext4","label":"data"}}]},"conditions":[]}}`
)

func TestDataPreserved(t *testing.T) {
	inv := snapshot.New(snapshot.Options{})
	objects, found := &hostObjects{values: map[string]string{}}, &conditions{}
	c := NewChecker(CheckerOptions{
		Inventory: inv, Decider: decide.New(decide.Options{Inventory: inv}), Journal: found,
		Ready: func() bool { return true }, Store: objects,
	})
	ref := model.Ref{Namespace: "g10", Name: "a"}
	put := func(o kvstore.Observer, key, value string) {
		o.Put(kvstore.Item{Key: key, Revision: 2, Value: []byte(value)})
	}
	host := func(value string) {
		objects.values["g10/a"] = value
		put(inv.Hosts(), "g10/a", value)
	}
	isFalse := strings.Replace(withDisk, `"conditions":[]`, `"conditions":[{"type":"DataPreserved","status":"False"}]`, 1)
	for _, step := range []struct {
		name   string
		change func()
		want   string // "": nothing is written
		reads  int
	}{
		{"the disks of a host are not known", func() {
			put(inv.Configs(), "g10/c", wipes)
			host(`{"metadata":{"namespace":"g10","name":"a"}}`)
		}, "", 0},
		{"it has a file system that the config wipes", func() { host(withDisk) },
			`with IgnitionConfig g10/c Ignition would destroy ext4 "data" on /dev/sdb, 476.9 GiB`, 1},
		{"the condition is stored", func() { host(isFalse) }, "", 1},
		{"the config leaves the disk", func() { put(inv.Configs(), "g10/c", leaves) }, "Ignition would destroy no data", 1},
		{"the config wipes it again", func() { host(withDisk); put(inv.Configs(), "g10/c", wipes) }, "would destroy ext4", 1},
		{"there is no config", func() { host(isFalse); inv.Configs().Delete("g10/c", 3) }, "would destroy no data", 0},
	} {
		t.Run(step.name, func(t *testing.T) {
			found.last, objects.reads = nil, 0
			step.change()
			c.checkDisks(t.Context(), inv.View().Host(ref))
			c.checkDisks(t.Context(), inv.View().Host(ref))
			switch {
			case step.want == "" && found.last != nil:
				t.Errorf("written: %+v", found.last)
			case step.want != "" && (found.last == nil || !strings.Contains(found.last.Message, step.want)):
				t.Errorf("written: %+v, want %q", found.last, step.want)
			}
			if objects.reads > step.reads {
				t.Errorf("%d reads of the store, want at most %d", objects.reads, step.reads)
			}
		})
	}
}

// TestDataPreservedIsNoPartOfReady: a config may be meant to destroy data, so a host waits for
// nobody.
func TestDataPreservedIsNoPartOfReady(t *testing.T) {
	inv := snapshot.New(snapshot.Options{})
	inv.Configs().Put(kvstore.Item{Key: "g10/c", Revision: 1, Value: []byte(wipes)})
	c := NewChecker(CheckerOptions{
		Inventory: inv, Decider: decide.New(decide.Options{Inventory: inv}), Journal: &conditions{},
		Ready: func() bool { return true },
	})
	host := newHost("a", "x", "")
	stored := explain.DataPreserved(model.Ref{Namespace: "g10", Name: "c"}, []string{"ext4 on /dev/sdb"})
	host.Status.Conditions = append(host.Status.Conditions, *conditionOf(&stored, 1, host.CreationTimestamp.Time))
	c.Complete(host)
	status := map[string]string{}
	for _, condition := range host.Status.Conditions {
		status[condition.Type] = string(condition.Status)
	}
	if status[v1.ConditionReady] != "True" || status[v1.ConditionDataPreserved] != "False" {
		t.Errorf("%v", status)
	}
}
