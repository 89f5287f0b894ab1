package natsd

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/ledger"
)

// TestDamagedRecordIsRefusedUnread flips a bit in each part of a record, its length included, in a bucket and in the
// boot log, with the index of a clean stop and without one, as a kill leaves it: before the NATS server opens it, the
// bucket is set aside, and not a byte of it is changed then or later.
func TestDamagedRecordIsRefusedUnread(t *testing.T) {
	const records = 8
	for part, offset := range map[string]int{
		"length": 0, "length by a record": 1, "length beyond the file": 2, "sequence": 4, "high bits of the sequence": 11,
		"time": 12, "subject": 24, "value": 60, "checksum": -1,
	} {
		for _, stream := range []string{"KV_HOSTS", bootStates} {
			for _, damaged := range []int{0, 3, records - 1} {
				for _, killed := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s of %d in %s, killed=%v", part, damaged, stream, killed), func(t *testing.T) {
						t.Parallel()
						dir := t.TempDir()
						putRecords(t, dir, stream, 0, records)
						spoilRecord(t, dir, stream, damaged, offset, killed)
						home := filepath.Dir(filepath.Dir(indexOf(dir, stream)))
						before := contentOf(t, home)
						for range 2 {
							s := start(t, dir)
							damage := s.Lost(bucketOf(stream))
							for _, want := range []string{filepath.Join(home, "msgs", "1.blk"), fmt.Sprint("at byte ", 256*damaged),
								"restore the data directory from a backup", "glowplug store accept-loss"} {
								if damage == nil || !strings.Contains(strings.ReplaceAll(damage.Error(), s.damages[0].Aside, home), want) {
									t.Errorf("there is no %q in: %v", want, damage)
								}
							}
							if after := contentOf(t, s.damages[0].Aside); !maps.Equal(before, after) {
								t.Errorf("before %v\nafter  %v", before, after)
							}
							stop(t, s)
						}
					})
				}
			}
		}
	}
}

// bootStates is the stream of the boot log.
const bootStates = ledger.StreamPrefix + "BOOTSTATES"

// TestUnacknowledgedEndIsNoDamage: what a kill or a power cut leaves of a write that was not acknowledged is no damage.
// If the data directory knows that there were newer messages, it is.
func TestUnacknowledgedEndIsNoDamage(t *testing.T) {
	const records = 8
	for acknowledged, lost := range map[uint64]bool{0: false, records - 1: false, records: true} {
		for name, cut := range map[string]int64{"a part of the header": 250, "a part of the value": 100, "all but a byte": 1} {
			t.Run(fmt.Sprintf("%s, %d are acknowledged", name, acknowledged), func(t *testing.T) {
				dir := t.TempDir()
				putRecords(t, dir, "KV_HOSTS", 0, records)
				remove(t, indexOf(dir, "KV_HOSTS"))
				if err := os.Truncate(filepath.Join(filepath.Dir(indexOf(dir, "KV_HOSTS")), "1.blk"), 256*records-cut); err != nil {
					t.Fatal(err)
				}
				record(t, dir, "HOSTS", acknowledged)
				s := start(t, dir)
				defer stop(t, s)
				if (s.Lost("HOSTS") != nil) != lost {
					t.Errorf("the bucket is lost: %v", s.Lost("HOSTS"))
				}
			})
		}
	}
}

// TestDamageBeforeWholeRecordsIsDamage: also where the data directory does not know how far the bucket went.
func TestDamageBeforeWholeRecordsIsDamage(t *testing.T) {
	for _, offset := range []int{0, 1, 60} { // the length is what is damaged, or the value
		dir := t.TempDir()
		putRecords(t, dir, "KV_HOSTS", 0, 8)
		record(t, dir, "HOSTS", 0)
		spoilRecord(t, dir, "KV_HOSTS", 3, offset, true)
		s := start(t, dir)
		if s.Lost("HOSTS") == nil {
			t.Errorf("byte %d: the bucket is in use", offset)
		}
		stop(t, s)
	}
}

// record makes a revision the newest that a data directory knows of a bucket.
func record(t *testing.T, dir, bucket string, revision uint64) {
	t.Helper()
	l, err := ledger.Open(dir, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Reach(bucket, revision); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedIdentityIsWrittenAgain: the only record of the identity's bucket is no write that was not acknowledged.
func TestDamagedIdentityIsWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	if err := ledger.NewKeeper(s.Ledger, ledger.KeeperOptions{}).Guard(t.Context(), connected(t, s)); err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	spoilRecord(t, dir, ledger.StreamOf(ledger.Bucket), 0, 60, true)
	s = start(t, dir)
	defer stop(t, s)
	if d := s.Damages(); len(d) != 1 || d[0].Bucket != ledger.Bucket || d[0].Lost {
		t.Errorf("set aside: %v", d)
	}
}

// TestGoodBlocksAreNoDamage: whatever the NATS server of this release writes into block files counts as whole. If
// this fails, nats-server has another format.
func TestGoodBlocksAreNoDamage(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	js := connected(t, s)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_HOSTS", Subjects: []string{"records.>"}, MaxMsgsPerSubject: 1, FirstSeq: 2, AllowRollup: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	put := func(i, size int) {
		t.Helper()
		msg := nats.NewMsg(subjectNumber(i))
		msg.Data = make([]byte, size)
		_, _ = rand.Read(msg.Data)
		msg.Header.Set("Glowplug", "sum=00")
		if i%7 == 0 {
			msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
		}
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 60 {
		put(i%20, 1+i*20_000)
	}
	for i := range 200 {
		put(100+i, 100)
	}
	for _, err := range []error{
		stream.DeleteMsg(t.Context(), 200), stream.SecureDeleteMsg(t.Context(), 203),
		stream.Purge(t.Context(), jetstream.WithPurgeSequence(45)),
		stream.Purge(t.Context(), jetstream.WithPurgeSubject(subjectNumber(190))), s.Add("HOSTS"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for round := range 2 {
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Reach("HOSTS", info.State.LastSeq); err != nil {
			t.Fatal(err)
		}
		stop(t, s)
		paths, err := filepath.Glob(filepath.Join(filepath.Dir(indexOf(dir, "KV_HOSTS")), "*"+blockSuffix))
		if err != nil || len(paths) < 2-round {
			t.Fatalf("the blocks are %v, %v", paths, err)
		}
		for _, path := range paths {
			sum, err := hashOf("KV_HOSTS-" + strings.TrimSuffix(filepath.Base(path), blockSuffix))
			if err != nil {
				t.Fatal(err)
			}
			block, err := os.ReadFile(path)
			if end, _ := readRecords(block, sum); err != nil || end != len(block) {
				t.Errorf("%s is whole up to byte %d of %d, %v", path, end, len(block), err)
			}
		}
		s = start(t, dir)
		if len(s.Damages()) > 0 {
			t.Errorf("set aside: %v", s.Damages())
		}
		if stream, err = connected(t, s).Stream(t.Context(), "KV_HOSTS"); err != nil {
			t.Fatal(err)
		}
		if err := stream.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop(t, s)
}

func subjectNumber(i int) string { return fmt.Sprintf("records.number-%03d", i) }

func indexOf(dir, stream string) string {
	return filepath.Join(streamsOf(filepath.Join(dir, "nats")), stream, "msgs", indexFile)
}

// openStream starts a server, and opens the stream.
func openStream(t *testing.T, dir, stream string) (*Server, jetstream.Stream) {
	t.Helper()
	s, err := Start(t.Context(), Options{DataDir: dir, Repair: true})
	if err != nil {
		t.Fatal(err)
	}
	opened, err := connected(t, s).CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{
		Name: stream, Subjects: []string{"records.>"}, MaxMsgsPerSubject: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, opened
}

// putRecords stores records of one size.
func putRecords(t *testing.T, dir, stream string, from, to int) {
	t.Helper()
	s, _ := openStream(t, dir, stream)
	js := connected(t, s)
	for i := from; i < to; i++ {
		msg := nats.NewMsg(subjectNumber(i))
		msg.Data = bytes.Repeat([]byte{'x'}, 256-recordHeader-recordChecksum-len(msg.Subject))
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{s.Add(bucketOf(stream)), s.Reach(bucketOf(stream), uint64(to))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	stop(t, s)
}

// spoilRecord flips the bit 1 of a byte of a record; a negative offset counts from its end.
func spoilRecord(t *testing.T, dir, stream string, number, offset int, killed bool) {
	t.Helper()
	path := filepath.Join(filepath.Dir(indexOf(dir, stream)), "1.blk")
	block, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for range number {
		at += int(binary.LittleEndian.Uint32(block[at:]))
	}
	if offset < 0 {
		offset += int(binary.LittleEndian.Uint32(block[at:]))
	}
	block[at+offset] ^= 1
	if err := os.WriteFile(path, block, 0o600); err != nil {
		t.Fatal(err)
	}
	if killed {
		remove(t, indexOf(dir, stream))
	}
}

// TestAcceptedBucketHasWhatCanBeRead: what the NATS server can read of a damaged bucket is put into service, and what
// was set aside stays as it is, also where the command is killed in between.
func TestAcceptedBucketHasWhatCanBeRead(t *testing.T) {
	const records, damaged = 8, 3
	putBack := func(string) jetstream.StreamConfig {
		return jetstream.StreamConfig{Name: "KV_HOSTS", Subjects: []string{"records.>"}, MaxMsgsPerSubject: 1}
	}
	record := func(killed bool) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { spoilRecord(t, dir, "KV_HOSTS", damaged, 60, killed) }
	}
	for name, test := range map[string]struct {
		spoil func(t *testing.T, dir string)
		kill  func(t *testing.T, dir, aside string)
		lost  func(i int) bool
	}{
		"a record":               {record(false), nil, func(i int) bool { return i >= damaged }},
		"a record, after a kill": {record(true), nil, func(i int) bool { return i >= damaged }},
		"the description": {func(t *testing.T, dir string) { dropCopies(t, dir); spoilSum(t, dir) }, nil,
			func(int) bool { return false }},
		"a record, and a half of the copy is left of a killed command": {record(false), func(t *testing.T, dir, _ string) {
			if err := os.MkdirAll(filepath.Join(dir, asideDir, stagingDir, "msgs"), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, asideDir, stagingDir, "msgs", "9.blk"), []byte("half"))
		}, func(i int) bool { return i >= damaged }},
		"a record, and the command was killed before NATS opened the copy": {record(false),
			func(t *testing.T, dir, aside string) {
				if err := copyFolder(aside, bucketFolder(dir, "HOSTS")); err != nil {
					t.Fatal(err)
				}
			}, func(i int) bool { return i >= damaged }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			putRecords(t, dir, "KV_HOSTS", 0, records)
			test.spoil(t, dir)
			before := contentOf(t, bucketFolder(dir, "HOSTS"))
			s := start(t, dir)
			if s.Lost("HOSTS") == nil {
				t.Fatal("the bucket is not set aside")
			}
			aside := s.Damages()[0].Aside
			stop(t, s)
			if test.kill != nil {
				test.kill(t, dir, aside)
			}
			for _, opts := range []Options{{DataDir: dir, Look: true, PutBack: putBack}, {DataDir: dir, Repair: true,
				PutBack: putBack}} {
				s, err := Start(t.Context(), opts)
				if err != nil {
					t.Fatal(err)
				}
				if d := s.Damages(); len(d) == 0 || !d[len(d)-1].Accepted || s.Lost("HOSTS") != nil {
					t.Errorf("look=%v: %v", opts.Look, d)
				}
				stream, err := connected(t, s).Stream(t.Context(), "KV_HOSTS")
				if err != nil {
					t.Fatal(err)
				}
				for i := range records {
					if _, err := stream.GetLastMsgForSubject(t.Context(), subjectNumber(i)); (err != nil) != test.lost(i) {
						t.Errorf("look=%v: record %d: %v", opts.Look, i, err)
					}
				}
				stop(t, s)
				if after := contentOf(t, aside); !maps.Equal(before, after) {
					t.Errorf("look=%v: before %v\nafter  %v", opts.Look, before, after)
				}
				if _, err := os.Stat(bucketFolder(dir, "HOSTS")); opts.Look && test.kill == nil && err == nil {
					t.Error("looking has put a bucket into the store")
				}
			}
			s = start(t, dir)
			defer stop(t, s)
			if s.Lost("HOSTS") != nil {
				t.Errorf("the next start: %v", s.Damages())
			}
		})
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
