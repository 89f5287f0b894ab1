package image

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/image"
)

// An upload of an object that was made a moment ago goes on as soon as the watch has
// brought the object, and does not wait for ever.
func TestAwaitPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		library, err := image.New(image.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := New(Options{Library: library})
		object := func(name string) *v1.ISCSICdrom {
			return &v1.ISCSICdrom{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "1"}}
		}
		wait := func(ctx context.Context) time.Duration {
			began := time.Now()
			c.awaitPut(ctx, object("awaited"))
			return time.Since(began)
		}
		if took := wait(t.Context()); took != putTimeout {
			t.Errorf("it waits %v for an object that does not come", took)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if took := wait(ended); took != 0 {
			t.Errorf("it waits %v for a request that has ended", took)
		}
		go func() {
			time.Sleep(putTimeout / 4)
			c.OnAdd(object("other"), false)
			time.Sleep(putTimeout / 4)
			c.OnAdd(object("awaited"), false)
		}()
		if took := wait(t.Context()); took != putTimeout/2 {
			t.Errorf("it waits %v for an object that comes after %v", took, putTimeout/2)
		}
	})
}
