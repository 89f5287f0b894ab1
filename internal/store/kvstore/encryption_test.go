package kvstore

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/encryption"
	"glowplug/internal/store/natsd"
	"glowplug/internal/testkit"
)

const planted = "PlantedSecret-7d1f"

// cipher returns that of hosts with providers in this order: name=letter is a key of aesgcm,
// and "identity" none.
func cipher(t *testing.T, providers ...string) *encryption.Cipher {
	t.Helper()
	var file strings.Builder
	file.WriteString("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n" +
		"resources:\n- resources: [baremetalhosts]\n  providers:\n")
	for _, p := range providers {
		if name, letter, ok := strings.Cut(p, "="); ok {
			secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(letter), 32))
			fmt.Fprintf(&file, "  - aesgcm: {keys: [{name: %s, secret: %s}]}\n", name, secret)
		} else {
			file.WriteString("  - identity: {}\n")
		}
	}
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := encryption.Load(t.Context(), path, "test")
	if err != nil {
		t.Fatal(err)
	}
	return keys.Of(schema.GroupResource{Resource: "baremetalhosts"})
}

// encrypted is a store on a data directory, with a server of its own.
type encrypted struct {
	*Store
	stop func()
}

func newEncrypted(server *natsd.Server, c *encryption.Cipher) *Store {
	return New(hostKind("BAREMETALHOSTS"),
		Options{Exclusive: true, Ledger: server, KeyDir: server.Ledger.KeyDir(), Cipher: c})
}

func openEncrypted(t *testing.T, dir string, c *encryption.Cipher) *encrypted {
	t.Helper()
	server := startEmbedded(t, dir)
	s := newEncrypted(server, c)
	js := connect(t, server)
	stop := run(t, s, js)
	awaitReady(t, s)
	return &encrypted{s, func() { stop(); stopEmbedded(t, server) }}
}

func (s *encrypted) create(t *testing.T, name string) {
	t.Helper()
	h := &v1.BareMetalHost{}
	h.Namespace, h.Name = "default", name
	h.Spec.Hostname = planted
	if err := s.Create(t.Context(), "/baremetalhosts/default/"+name, h, nil, 0); err != nil {
		t.Fatal(err)
	}
}

func (s *encrypted) read(t *testing.T, name string) string {
	t.Helper()
	var h v1.BareMetalHost
	if err := s.Get(t.Context(), "/baremetalhosts/default/"+name, storage.GetOptions{}, &h); err != nil {
		t.Fatal(err)
	}
	return h.Spec.Hostname
}

// rewriteAll is what glowplug rewrite does; it returns once the former values are off the disk.
func (s *encrypted) rewriteAll(t *testing.T) (written int) {
	t.Helper()
	for {
		w, left, err := s.Rewrite(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if written += w; left == 0 {
			break
		}
	}
	testkit.Until(t, "the bucket has the sample of one key", func() bool {
		info, err := s.connection.link.Load().stream.Info(t.Context())
		return err == nil && len(samplesOf(info.Config.Metadata)) == 1
	})
	return written
}

// onDisk returns the files below a folder that contain a text.
func onDisk(t *testing.T, dir, text string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestEncryptedValuesAreNotOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	s := openEncrypted(t, dir, cipher(t, "one=a", "identity"))
	s.create(t, "node-1")
	if files := onDisk(t, dir, planted); len(files) > 0 {
		t.Errorf("the value is in %v", files)
	}
	s.stop()
	s = openEncrypted(t, dir, cipher(t, "one=a"))
	if got := s.read(t, "node-1"); got != planted {
		t.Errorf("%q is read after a restart", got)
	}
}

// Values from before the encryption are encrypted by a rewrite, and their files are removed,
// those of deleted objects as well.
func TestRewriteRemovesPlainValues(t *testing.T) {
	dir := t.TempDir()
	s := openEncrypted(t, dir, nil)
	for i := range 40 {
		s.create(t, fmt.Sprint("node-", i))
	}
	if err := s.Delete(t.Context(), "/baremetalhosts/default/node-0", &v1.BareMetalHost{}, nil,
		storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.stop()
	if len(onDisk(t, dir, planted)) == 0 {
		t.Fatal("the plain value is not found on the disk: the test searches in the wrong place")
	}
	s = openEncrypted(t, dir, cipher(t, "one=a", "identity"))
	if stale := s.contents.mirror.staleEntries(); stale != 39 {
		t.Errorf("%d stale entries", stale)
	}
	if n := s.rewriteAll(t); n != 39 {
		t.Errorf("%d rewritten", n)
	}
	if files := onDisk(t, dir, planted); len(files) > 0 {
		t.Errorf("the plain value is still in %v", files)
	}
	if n := s.rewriteAll(t); n != 0 {
		t.Errorf("%d rewritten the second time", n)
	}
	s.stop()
	s = openEncrypted(t, dir, cipher(t, "one=a"))
	if got := s.read(t, "node-39"); got != planted || s.contents.count() != 39 {
		t.Errorf("%q, %d objects after a restart without identity", got, s.contents.count())
	}
}

func TestKeyRotation(t *testing.T) {
	dir := t.TempDir()
	s := openEncrypted(t, dir, cipher(t, "one=a"))
	s.create(t, "node-1")
	s.stop()

	s = openEncrypted(t, dir, cipher(t, "two=b", "one=a"))
	s.create(t, "node-2")
	if s.contents.mirror.staleEntries() != 1 {
		t.Errorf("%d stale entries", s.contents.mirror.staleEntries())
	}
	// What kubectl get | kubectl replace does: an object is written although it is the same.
	before := s.contents.mirror.get("default/node-1").Revision
	same := func(in runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) { return in, nil, nil }
	if err := s.GuaranteedUpdate(t.Context(), "/baremetalhosts/default/node-1", &v1.BareMetalHost{}, false, nil,
		same, nil); err != nil {
		t.Fatal(err)
	}
	if e := s.contents.mirror.get("default/node-1"); e.Revision == before || e.stale {
		t.Error("an update without a change left the value of the former key")
	}
	s.rewriteAll(t) // waits until the former key is forgotten
	s.stop()

	s = openEncrypted(t, dir, cipher(t, "two=b"))
	if s.read(t, "node-1") != planted || s.read(t, "node-2") != planted {
		t.Error("the values are not those that were written")
	}
	s.stop()

	s = openEncrypted(t, dir, cipher(t, "identity", "two=b"))
	s.rewriteAll(t)
	s.stop()
	s = openEncrypted(t, dir, nil)
	if s.read(t, "node-1") != planted {
		t.Error("the value is not read after the encryption was given up")
	}
}

// A new key with the name of the former one is another key: the former one is needed until all is rewritten, and
// then no more.
func TestKeyRotationUnderOneName(t *testing.T) {
	dir := t.TempDir()
	s := openEncrypted(t, dir, cipher(t, "one=a"))
	s.create(t, "node-1")
	s.stop()
	s = openEncrypted(t, dir, cipher(t, "one=b", "one=a"))
	s.create(t, "node-2")
	s.stop()
	for _, letter := range []string{"a", "b"} {
		server := startEmbedded(t, dir)
		alone := newEncrypted(server, cipher(t, "one="+letter))
		if err := alone.CheckKeys(t.Context(), connect(t, server)); !errors.As(err, new(*encryption.KeyError)) {
			t.Errorf("the key %s alone: %v", letter, err)
		}
		stopEmbedded(t, server)
	}
	s = openEncrypted(t, dir, cipher(t, "one=b", "one=a"))
	s.rewriteAll(t)
	s.stop()
	s = openEncrypted(t, dir, cipher(t, "one=b"))
	if s.read(t, "node-1") != planted || s.read(t, "node-2") != planted {
		t.Error("the values are not those that were written")
	}
}

// A server without the key, or with another one under its name, opens nothing and changes nothing.
func TestMissingKeyRefusesAndChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s := openEncrypted(t, dir, cipher(t, "one=a"))
	s.create(t, "node-1")
	revision := s.contents.mirror.revision()
	s.stop()
	for name, c := range map[string]*encryption.Cipher{
		"none": nil, "another": cipher(t, "two=b", "identity"), "same name": cipher(t, "one=c"),
	} {
		server := startEmbedded(t, dir)
		js := connect(t, server)
		s := newEncrypted(server, c)
		refused := new(encryption.KeyError)
		if err := s.CheckKeys(t.Context(), js); !errors.As(err, &refused) || refused.Key != "one" ||
			!strings.Contains(err.Error(), `"one"`) || refused.Missing == (name == "same name") {
			t.Errorf("%s: CheckKeys: %v", name, err)
		}
		stream, err := js.Stream(t.Context(), "KV_BAREMETALHOSTS")
		if err != nil {
			t.Fatal(err)
		}
		metadata := stream.CachedInfo().Config.Metadata
		if err := CheckKeys(t.Context(), hostKind("BAREMETALHOSTS"), c, metadata); !errors.As(err, &refused) {
			t.Errorf("%s: CheckKeys of the metadata: %v", name, err)
		}
		stop := run(t, s, js)
		testkit.Until(t, "the store refuses its bucket", func() bool {
			return errors.As(s.connection.ReadinessCheck(), new(*encryption.KeyError))
		})
		if err := s.Create(t.Context(), "/baremetalhosts/default/node-2", &v1.BareMetalHost{}, nil, 0); err == nil {
			t.Errorf("%s: a write was accepted", name)
		}
		stop()
		stopEmbedded(t, server)
	}
	s = openEncrypted(t, dir, cipher(t, "one=a"))
	if s.read(t, "node-1") != planted || s.contents.mirror.revision() != revision {
		t.Errorf("revision %d after %d", s.contents.mirror.revision(), revision)
	}
}

// The value of one object is none of another, whoever has moved it, and counts as damaged.
func TestEncryptedValueBelongsToItsObject(t *testing.T) {
	dir := t.TempDir()
	server := startEmbedded(t, dir)
	js := connect(t, server)
	s := &encrypted{Store: New(hostKind("BAREMETALHOSTS"), Options{Cipher: cipher(t, "one=a")})}
	run(t, s.Store, js)
	awaitReady(t, s.Store)
	s.create(t, "node-1")
	raw, err := s.connection.link.Load().stream.GetLastMsgForSubject(t.Context(), "$KV.BAREMETALHOSTS.default/node-1")
	if err != nil {
		t.Fatal(err)
	}
	moved := nats.NewMsg("$KV.BAREMETALHOSTS.default/node-2")
	moved.Data, moved.Header = raw.Data, raw.Header
	moved.Header.Del("Nats-Expected-Last-Subject-Sequence")
	if _, err := js.PublishMsg(context.Background(), moved); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the moved value is noticed", func() bool { return len(s.Lost()) == 1 })
	if e := s.contents.mirror.get("default/node-2"); e != nil {
		t.Errorf("%s is read", e.Value)
	}
	if lost := s.Lost(); !slices.Equal(lost, []string{"default/node-2"}) || s.read(t, "node-1") != planted {
		t.Errorf("lost are %v", lost)
	}
}
