package kvstore

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"

	"glowplug/internal/store/keylog"
	"glowplug/internal/store/ledger"
)

// maxSubjectKey bounds an encoded key, in bytes. A server closes the connection
// on a subject longer than its control line of 4096.
const maxSubjectKey = 1024

// A key has three forms. The storage key "/baremetalhosts/ns/name" is what the
// API library speaks. The bucket key "ns/name" is what remains without the
// resource; mirror and observers use it. The subject key is the bucket key in
// characters that NATS takes: any other byte, and any dot that would leave an
// empty token, is written as "=" and two hex digits. Kubernetes names need no
// such escape, so that other programs find them under the plain key.

// bucket is the name of a bucket, and the form of its keys and messages.
type bucket struct {
	kind          Kind
	opts          Options
	prefix        string // of storage keys: "/baremetalhosts/"
	streamName    string
	subjectPrefix string
	versioner     storage.APIObjectVersioner
}

func newBucket(kind Kind, opts Options) *bucket {
	opts = opts.withDefaults()
	opts.Logger = opts.Logger.With("bucket", kind.Bucket)
	return &bucket{
		kind:          kind,
		opts:          opts,
		prefix:        "/" + kind.Resource + "/",
		streamName:    "KV_" + kind.Bucket,
		subjectPrefix: "$KV." + kind.Bucket + ".",
	}
}

// bucketKey checks a storage key and cuts the resource off. For a recursive
// request the result is a prefix: empty, or ending in a slash.
func (b *bucket) bucketKey(key string, recursive bool) (string, error) {
	prepared, err := storage.PrepareKey(b.prefix, key, recursive)
	if err != nil {
		return "", err
	}
	return prepared[len(b.prefix):], nil
}

// storageKey is the inverse of bucketKey.
func (b *bucket) storageKey(key string) string { return b.prefix + key }

// subject returns the NATS subject of a bucket key.
func (b *bucket) subject(key string) (string, error) {
	return b.subjectPrefix + EncodeKey(key), CheckKey(key)
}

// CheckKey returns why nothing can be stored under a bucket key.
func CheckKey(key string) error {
	if n := len(EncodeKey(key)); n > maxSubjectKey {
		return apierrors.NewBadRequest(fmt.Sprintf("namespace and name are too long: %d bytes, at most %d", n, maxSubjectKey))
	}
	return nil
}

// EncodeKey returns the subject key of a bucket key.
func EncodeKey(key string) string {
	if key == "" {
		return "=" // an escape without digits, which no other key has
	}
	var b strings.Builder
	b.Grow(len(key))
	for i := range len(key) {
		c := key[i]
		emptyToken := c == '.' && (i == 0 || i == len(key)-1 || key[i-1] == '.')
		if isPlainKeyByte(c) && !emptyToken {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02x", c)
		}
	}
	return b.String()
}

func isPlainKeyByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '_' || c == '/' || c == '.'
}

// decodeKey is the inverse of EncodeKey. Keys that EncodeKey cannot have written
// are errors: two subjects must not mean one object.
func decodeKey(encoded string) (string, error) {
	if encoded == "=" {
		return "", nil
	}
	key, err := url.PathUnescape(strings.ReplaceAll(encoded, "=", "%"))
	if err != nil || key == "" || EncodeKey(key) != encoded {
		return "", fmt.Errorf("key %q is not in its canonical form", encoded)
	}
	return key, nil
}

// maxNamed is how many lost objects the log names.
const maxNamed = 20

// Former returns what the key log in a folder says of the bucket of a kind. Of transient
// objects none counts as lost.
func Former(kind Kind, dir string) (ledger.Former, error) {
	keys := keylog.New(ledger.KeyFile(dir, kind.Bucket))
	err := keys.Read()
	f := ledger.Former{Created: keys.Created(), Revision: keys.Revision(), Objects: map[string]uint64{},
		Deleted: map[string]uint64{}}
	if kind.Transient {
		return f, err
	}
	for key, r := range keys.Keys() {
		if r.Deleted {
			f.Deleted[EncodeKey(key)] = r.Revision
		} else {
			f.Objects[EncodeKey(key)] = r.Revision
		}
	}
	return f, err
}

// keyPath is the file of the key log; "" for none.
func (s *contents) keyPath() string {
	if s.opts.KeyDir == "" {
		return ""
	}
	return ledger.KeyFile(s.opts.KeyDir, s.kind.Bucket)
}

// remember brings a change into the key log.
func (s *contents) remember(c change) {
	switch {
	case c.skip:
	case c.put != nil || c.corrupt != nil:
		s.keys.Put(c.key, c.rev)
	default:
		s.keys.Delete(c.key, c.rev)
	}
}

// writeKeys keeps the file of the key log up to date until ctx ends.
func (s *contents) writeKeys(ctx context.Context) {
	s.keys.Keep(ctx, func() { s.keys.Reach(s.mirror.revision()) }, func(err error) {
		s.opts.Logger.Warn("the key log cannot be written; what the bucket loses meanwhile is not noticed at the next start",
			"error", err)
	})
}
