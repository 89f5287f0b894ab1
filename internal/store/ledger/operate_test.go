package ledger

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/natsd/natstest"
)

// decide surveys a store and carries one of an operator's decisions out.
func decide(t *testing.T, l *Ledger, js jetstream.JetStream, f func(*Keeper, *Survey) (string, error)) (*Survey, string,
	error) {
	t.Helper()
	k := keep(l)
	s, err := k.Survey(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	id, err := f(k, s)
	return s, id, err
}

func TestAdoptTakesWhatIsThere(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, server *natstest.Server, l *Ledger){
		"an older backup": func(t *testing.T, server *natstest.Server, l *Ledger) {
			fill(t, server.JetStream(), l, "A", 3)
			server.Stop()
			backup := server.Copy()
			server.Restart()
			js := server.JetStream()
			fill(t, js, l, "A", 9)
			if err := keep(l).record(t.Context(), js); err != nil {
				t.Fatal(err)
			}
			server.Stop()
			server.Use(backup)
			server.Restart()
		},
		"one bucket of a backup": func(t *testing.T, server *natstest.Server, l *Ledger) {
			js := server.JetStream()
			fill(t, js, l, "A", 9)
			fill(t, js, l, "B", 9)
			if err := keep(l).record(t.Context(), js); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"KV_A", "KV_B"} {
				if err := js.DeleteStream(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
			fill(t, js, nil, "A", 3)
		},
		"a foreign store": func(t *testing.T, server *natstest.Server, l *Ledger) {
			fill(t, natstest.Start(t).JetStream(), l, "B", 9)
			fill(t, server.JetStream(), open(t, t.TempDir()), "A", 3)
		},
		"a store without an identity": func(t *testing.T, server *natstest.Server, l *Ledger) {
			fill(t, natstest.Start(t).JetStream(), l, "A", 9)
			fill(t, server.JetStream(), nil, "A", 3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, l := natstest.Start(t), open(t, t.TempDir())
			prepare(t, server, l)
			js, former := server.JetStream(), l.snapshot().ID
			refused(t, keep(l).Guard(t.Context(), js), "glowplug store adopt")
			s, id, err := decide(t, l, js, func(k *Keeper, s *Survey) (string, error) { return k.Adopt(t.Context(), js, s) })
			if err != nil || id == "" || s.Objects() != 3 || s.Mismatch == nil {
				t.Fatalf("adopting gives %q, %v; shown were %+v", id, err, s)
			}
			if err := keep(l).Guard(t.Context(), js); err != nil {
				t.Errorf("after it the guard says %v", err)
			}
			if l.Reached("A") != 3 || l.Has("B") {
				t.Errorf("recorded are %+v", l.snapshot())
			}
			// A server that comes new agrees; one that knew another state has to be told.
			if err := keep(open(t, t.TempDir())).Guard(t.Context(), js); err != nil {
				t.Errorf("a new server says %v", err)
			}
			if id == former {
				t.Error("another history has the identity of the former one")
			}
			knew := open(t, t.TempDir())
			if err := knew.join(former); err != nil {
				t.Fatal(err)
			}
			refused(t, keep(knew).Guard(t.Context(), js), former, id)
			_, second, err := decide(t, knew, js, func(k *Keeper, s *Survey) (string, error) {
				return k.Adopt(t.Context(), js,
					s)
			})
			if err != nil || second != id || keep(l).Guard(t.Context(), js) != nil {
				t.Errorf("adopting at a second server gives %q, %v, want %q", second, err, id)
			}
		})
	}
}

func TestAdoptRefusesAnEmptyNATS(t *testing.T) {
	js, l := natstest.Start(t).JetStream(), open(t, t.TempDir())
	fill(t, natstest.Start(t).JetStream(), l, "A", 1)
	_, _, err := decide(t, l, js, func(k *Keeper, s *Survey) (string, error) { return k.Adopt(t.Context(), js, s) })
	refused(t, err, "nothing to adopt", "glowplug store init")
	refused(t, keep(l).Guard(t.Context(), js), "no store") // it has changed nothing
}

// After NATS was lost every server is told to begin anew, and they begin the same
// store.
func TestInitBeginsOneNewStore(t *testing.T) {
	old, js := natstest.Start(t).JetStream(), natstest.Start(t).JetStream()
	one, two := open(t, t.TempDir()), open(t, t.TempDir())
	fill(t, old, one, "A", 3)
	fill(t, old, two, "A", 3)
	former := one.snapshot().ID
	begin := func(k *Keeper, s *Survey) (string, error) { return k.Init(t.Context(), js, s) }
	var ids []string
	for _, l := range []*Ledger{one, two} {
		_, id, err := decide(t, l, js, begin)
		if err != nil {
			t.Fatal(err)
		}
		if err := keep(l).Guard(t.Context(), js); err != nil {
			t.Errorf("after it the guard says %v", err)
		}
		ids = append(ids, id)
	}
	if ids[0] != ids[1] || ids[0] == former || one.Has("A") {
		t.Errorf("two servers began %v, the former store is %s; recorded are %+v", ids, former, one.snapshot())
	}
	refused(t, keep(one).Guard(t.Context(), old), former)
	// A third one comes when the first has written: it adopts.
	three := open(t, t.TempDir())
	fill(t, old, three, "A", 1)
	fill(t, js, one, "A", 3)
	_, id, err := decide(t, three, js, func(k *Keeper, s *Survey) (string, error) { return k.Adopt(t.Context(), js, s) })
	if err != nil || id != ids[0] || keep(three).Guard(t.Context(), js) != nil {
		t.Errorf("adopting what another server has begun gives %q, %v", id, err)
	}
}

func TestInitRefusesWhereThereAreObjects(t *testing.T) {
	js, own, other := natstest.Start(t).JetStream(), open(t, t.TempDir()), open(t, t.TempDir())
	fill(t, js, own, "A", 3)
	fill(t, natstest.Start(t).JetStream(), other, "A", 1)
	// A server whose record is lost does not start on what it finds.
	lost := open(t, t.TempDir())
	for l, remedy := range map[*Ledger]string{
		own: "start it", other: "glowplug store adopt", lost: "glowplug store adopt",
	} {
		before := l.snapshot().ID
		_, _, err := decide(t, l, js, func(k *Keeper, s *Survey) (string, error) { return k.Init(t.Context(), js, s) })
		refused(t, err, "3 objects", remedy)
		if l.snapshot().ID != before {
			t.Error("the refusal has changed the data directory")
		}
	}
}

// A store that another server has begun holds a message of its own in each bucket
// that was read. It is no object: the store is still empty, and is joined.
func TestBarrierIsNoObject(t *testing.T) {
	js, own, other := natstest.Start(t).JetStream(), open(t, t.TempDir()), open(t, t.TempDir())
	fill(t, js, own, "A", 0)
	fill(t, natstest.Start(t).JetStream(), other, "A", 1)
	if _, err := js.Publish(t.Context(), "$KV.A.=barrier", nil); err != nil {
		t.Fatal(err)
	}
	s, id, err := decide(t, other, js, func(k *Keeper, s *Survey) (string, error) { return k.Init(t.Context(), js, s) })
	if err != nil || id != own.snapshot().ID || s.Objects() != 0 {
		t.Errorf("joining a store that is empty gives %q, %v, want %q; it has %d objects", id, err, own.snapshot().ID,
			s.Objects())
	}
}

// What the data directory knew of the objects of another store, or of another state
// of it, would count as lost.
func TestAdoptForgetsTheKeyLogs(t *testing.T) {
	server := natstest.Start(t)
	l := open(t, t.TempDir())
	fill(t, server.JetStream(), nil, "A", 3)
	if err := os.MkdirAll(l.KeyDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	file := KeyFile(l.KeyDir(), "A")
	if err := os.WriteFile(file, []byte("what it knew"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := decide(t, l, server.JetStream(), func(k *Keeper, s *Survey) (string, error) {
		return k.Adopt(t.Context(), server.JetStream(), s)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the key log is still there: %v", err)
	}
}

// A survey shows what the key logs know, since a server refuses a bucket by them, too.
func TestSurveyShowsWhatTheServerRefusesBy(t *testing.T) {
	js, l := natstest.Start(t).JetStream(), open(t, t.TempDir())
	fill(t, js, l, "A", 3) // at the revisions 1 to 3
	stream, err := js.Stream(t.Context(), StreamOf("A"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		former      Former
		reason      string
		lost, older []string
	}{
		"nothing is known": {Former{}, "", nil, nil},
		"what is there":    {Former{Revision: 3, Objects: map[string]uint64{"key-0": 1, "key-2": 3}}, "", nil, nil},
		"an object is lost": {Former{Revision: 3, Objects: map[string]uint64{"key-0": 1, "key-9": 2}}, "",
			[]string{"key-9"}, nil},
		"an object is older": {Former{Revision: 3, Objects: map[string]uint64{"key-0": 2}}, "", nil,
			[]string{"key-0"}},
		"the bucket is older": {Former{Revision: 6}, "A is at revision 3, and this server has seen 6", nil, nil},
		"another bucket": {Former{Created: time.Now().Add(-time.Hour), Revision: 3},
			"A was deleted and made anew by somebody else", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if test.former.Created.IsZero() && test.former.Revision > 0 {
				test.former.Created = stream.CachedInfo().Created
			}
			k := NewKeeper(l, KeeperOptions{Buckets: []string{"A", "B"}, Former: func(bucket string) Former {
				if bucket == "A" {
					return test.former
				}
				return Former{}
			}})
			s, err := k.Survey(t.Context(), js)
			if err != nil {
				t.Fatal(err)
			}
			if a := s.Buckets[0]; a.Reached != max(3, test.former.Revision) || !slices.Equal(a.Lost, test.lost) ||
				!slices.Equal(a.Older, test.older) {
				t.Errorf("the bucket is %+v", a)
			}
			if s.Kept != (test.reason == "") {
				t.Errorf("the identity is kept: %v", s.Kept)
			}
			if test.reason == "" && s.Mismatch == nil {
				return
			}
			refused(t, s.Mismatch, test.reason, "glowplug store adopt")
		})
	}
}

// TestAcceptLossDeletesAgain: what is readable again although it was deleted is deleted, before the loss counts as
// accepted, and a store that is not the server's is none that has lost something.
func TestAcceptLossDeletesAgain(t *testing.T) {
	js, l := natstest.Start(t).JetStream(), open(t, t.TempDir())
	fill(t, js, l, "A", 3)
	stream, err := js.Stream(t.Context(), StreamOf("A"))
	if err := errors.Join(err, keep(l).record(t.Context(), js)); err != nil {
		t.Fatal(err)
	}
	former := Former{Created: stream.CachedInfo().Created, Revision: 9,
		Objects: map[string]uint64{"key-0": 1, "key-9": 8}, Deleted: map[string]uint64{"key-1": 7, "key-2": 1}}
	k := NewKeeper(l, KeeperOptions{Buckets: []string{"A"}, Former: func(string) Former { return former }})
	s, err := k.Survey(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	if a := s.Buckets[0]; !slices.Equal(a.Lost, []string{"key-9"}) || !slices.Equal(a.Back, []string{"key-1"}) {
		t.Errorf("the bucket is %+v", a)
	}
	if _, err := k.AcceptLoss(t.Context(), js, s); err != nil {
		t.Fatal(err)
	}
	if s, err = keep(l).Survey(t.Context(), js); err != nil || s.Mismatch != nil || s.Buckets[0].Objects != 2 {
		t.Errorf("after it: %+v, %v", s, err)
	}
	foreign := natstest.Start(t).JetStream()
	fill(t, foreign, open(t, t.TempDir()), "A", 3)
	_, _, err = decide(t, l, foreign, func(k *Keeper, s *Survey) (string, error) {
		return k.AcceptLoss(t.Context(), foreign, s)
	})
	refused(t, err, "the data directory belongs to store", "glowplug store adopt")
}

// What a missing bucket had is lost as well, and so is the boot log, whose keys are no objects.
func TestSurveyNamesWhatAMissingBucketHad(t *testing.T) {
	js, l := natstest.Start(t).JetStream(), open(t, t.TempDir())
	fill(t, js, l, "A", 3)
	former := Former{Created: time.Now(), Revision: 5, Objects: map[string]uint64{"key-0": 1, "key-2": 3}}
	k := NewKeeper(l, KeeperOptions{Buckets: []string{"A"}, Former: func(string) Former { return former }})
	if err := js.DeleteKeyValue(t.Context(), "A"); err != nil {
		t.Fatal(err)
	}
	s, err := k.Survey(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	if a := s.Buckets[0]; a.Exists || a.Reached != 5 || !slices.Equal(a.Lost, []string{"key-0", "key-2"}) {
		t.Errorf("the bucket is %+v", a)
	}
	refused(t, s.Mismatch, "lacks buckets that existed: A", "glowplug store adopt")
}

// A watch that comes upon a damaged record waits for ever. What can be read is counted, and what
// cannot is named.
func TestSurveyCountsWhatCanBeRead(t *testing.T) {
	server, l := natstest.Start(t), open(t, t.TempDir())
	fill(t, server.JetStream(), l, "A", 3)
	server.Stop()
	dir := server.Copy()
	blocks, err := filepath.Glob(filepath.Join(dir, "jetstream/*/streams/KV_A/msgs/*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatal(blocks, err)
	}
	block, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	block[bytes.Index(block, []byte("key-1"))+len("key-1")+3] ^= 1
	if err := os.WriteFile(blocks[0], block, 0o600); err != nil {
		t.Fatal(err)
	}
	server.Use(dir)
	server.Restart()
	s, id, err := decide(t, l, server.JetStream(), func(k *Keeper, s *Survey) (string, error) {
		return k.Adopt(t.Context(), server.JetStream(), s)
	})
	if err != nil || id == "" {
		t.Fatal(id, err)
	}
	if a := s.Buckets[0]; a.Objects != 2 || a.Unreadable != 1 || !slices.Equal(a.Lost, []string{"key-1"}) {
		t.Errorf("the bucket is %+v", a)
	}
}
