package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/store/boots"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/ledger"
	"glowplug/internal/store/objects"
)

// maxProblems bounds the problems that Fsck names.
const maxProblems = 1000

// Checked is the result of Fsck.
type Checked struct {
	// Objects counts what was read, by resource; Boots and Contents count the history and what machines were given.
	Objects  map[string]int `json:"objects"`
	Boots    int            `json:"boots"`
	Contents int            `json:"contents"`
	// Problems are what cannot be used, or is missing; More of them are not named.
	Problems []Problem `json:"problems,omitempty"`
	More     int       `json:"more,omitempty"`
	// NotKept are boots of which it is not known any more what the machine was given. That is no damage: the history of
	// contents may lose some when the server is killed or the disk is full.
	NotKept []string `json:"notKept,omitempty"`
}

// Problem is one thing that fsck has found.
type Problem struct {
	// Object is RESOURCE/NAMESPACE/NAME, the name of a bucket, or "store".
	Object string `json:"object"`
	Reason string `json:"reason"`
}

func (c *Checked) problem(object, reason string) {
	if len(c.Problems) == maxProblems {
		c.More++
		return
	}
	c.Problems = append(c.Problems, Problem{object, reason})
}

// Fsck reads all that is stored and names what cannot be used: objects whose checksum, encryption or content does not
// hold, those that are lost, and damage of the history. It changes nothing.
func (b *Backend) Fsck(ctx context.Context) (*Checked, error) {
	c := &Checked{Objects: map[string]int{}}
	for _, kind := range kinds.All() {
		for _, key := range b.Stores[kind.Resource].Lost() {
			c.problem(kind.Resource+"/"+key, "it was stored and is lost or damaged")
		}
	}
	if err := b.keeper.Mismatch(); err != nil {
		c.problem("store", err.Error())
	}
	return c, inspect(ctx, b, c)
}

// FsckStopped is Fsck for the store of a server that does not run.
func FsckStopped(ctx context.Context, o *Options, warn func(message, remedy string)) (*Checked, error) {
	store, err := OpenStore(ctx, OperatorOptions{Options: *o, Existing: o.NATSURL == "", Look: true}, warn)
	if err != nil {
		if errors.As(err, new(interface{ Damaged() string })) {
			return &Checked{Problems: []Problem{{"store", err.Error()}}}, nil
		}
		return nil, err
	}
	defer store.Close()
	b := store.backend
	if err := b.openKeys(); err != nil {
		return nil, err
	}
	survey, err := store.Survey(ctx)
	if err != nil {
		return nil, err
	}
	c := &Checked{Objects: map[string]int{}}
	if survey.Mismatch != nil {
		c.problem("store", survey.Mismatch.Reason)
	}
	for _, bucket := range survey.Buckets {
		c.surveyed(bucket)
	}
	for _, d := range b.damages {
		if d.Lost {
			c.problem(d.Bucket, d.Error())
		}
	}
	return c, inspect(ctx, b, c)
}

// surveyed adds what the data directory knows of a bucket, and the bucket lacks.
func (c *Checked) surveyed(bucket ledger.SurveyedBucket) {
	for _, found := range []struct {
		keys   []string
		reason string
	}{
		{bucket.Lost, "it was stored and is missing"}, {bucket.Older, "the bucket has an older value of it"},
		{bucket.Back, "it was deleted and is back"},
	} {
		for _, key := range found.keys {
			c.problem(resourceOf(bucket.Name)+"/"+key, found.reason)
		}
	}
}

// resourceOf returns the resource of a bucket, or the bucket itself where it is none of objects.
func resourceOf(bucket string) string {
	if kind := kindOf(bucket); kind != nil {
		return kind.Resource
	}
	return bucket
}

// inspect reads the buckets and the history.
func inspect(ctx context.Context, b *Backend, c *Checked) error {
	var newest []*v1.Boot
	for _, kind := range kinds.All() {
		opts := kvstore.Options{Logger: slog.New(slog.DiscardHandler), Cipher: b.keys.Of(kind.GroupResource())}
		stored := objects.Stored(kind)
		unreadable, err := kvstore.Inspect(ctx, b.js, stored, opts, func(key string, value []byte, problem error) {
			if problem == nil {
				problem = objects.CheckPortable(kind, key, value)
			}
			if problem != nil {
				c.problem(kind.Resource+"/"+key, problem.Error())
				return
			}
			c.Objects[kind.Resource]++
			if kind.Resource == kinds.Boots {
				boot := new(v1.Boot)
				_ = stored.Codec.Decode(value, boot) // as CheckPortable has done
				newest = append(newest, boot)
			}
		})
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound) && kind.Transient: // the server makes it, as after a restore
		case errors.Is(err, jetstream.ErrStreamNotFound):
			c.problem(kind.Resource, "the bucket is missing")
		case err != nil:
			return err
		case unreadable > 0:
			c.problem(kind.Resource, fmt.Sprintf("NATS counts %d records that it cannot read", unreadable))
		}
	}
	inspected, err := boots.Inspect(ctx, b.js, b.keys.Of(kinds.Of(kinds.Boots).GroupResource()), newest, c.problem)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	c.Boots, c.Contents = inspected.Boots, inspected.Contents
	c.NotKept = inspected.NotKept[:min(len(inspected.NotKept), maxProblems)]
	slices.SortStableFunc(c.Problems, func(x, y Problem) int { return cmp.Compare(x.Object, y.Object) })
	c.Problems = slices.Compact(c.Problems)
	return nil
}
