package kvstore

import "k8s.io/apimachinery/pkg/runtime"

// Kind describes a resource that has a bucket.
type Kind struct {
	// Bucket is the JetStream KV bucket, such as "BAREMETALHOSTS".
	Bucket string
	// Resource is the plural name, such as "baremetalhosts". Storage keys are
	// "/<resource>/<namespace>/<name>" ("/<resource>/<name>" for a cluster-scoped
	// kind); bucket keys are what follows the resource.
	Resource string
	// New and NewList give empty objects.
	New, NewList func() runtime.Object
	// Transient marks a kind whose objects may be lost without an alarm, such as events.
	Transient bool
	// Note returns what has to be known of an object that is lost, of its stored value;
	// nil: nothing.
	Note func(value []byte) string
	// Codec is how objects are written into the bucket.
	Codec Codec
}

// Codec writes objects as bucket values and reads them back.
type Codec interface {
	Encode(obj runtime.Object) ([]byte, error)
	Decode(value []byte, into runtime.Object) error
}

// Item is one stored value.
type Item struct {
	// Key is the bucket key, "{namespace}/{name}".
	Key string
	// Revision is the sequence in the bucket's stream: the resourceVersion.
	Revision uint64
	// Value is the stored JSON. It must not be changed.
	Value []byte
	// Foreign is true where another program has put the value into the bucket.
	Foreign bool
}

// Observer follows a bucket. Calls for one bucket come one at a time, in the
// order of revisions; a write has been observed before its writer is answered.
// They must not block.
type Observer interface {
	// Load replaces everything: it is called once the bucket has been read, and
	// again where continuity was lost.
	Load(items []Item)
	// Put is a create or an update.
	Put(item Item)
	// Delete is the end of a key, at a revision.
	Delete(key string, revision uint64)
}
