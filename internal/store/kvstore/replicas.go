package kvstore

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/replicas"
)

const (
	// replicasInterval is how often the copies of a bucket are counted.
	replicasInterval = 10 * time.Second
	// firstReplicasInterval is how often it is tried until they were counted once.
	firstReplicasInterval = time.Second
)

// KeepReplicas gives the bucket the wanted number of copies, as soon as the cluster
// has a place for them, and counts them, until ctx ends. It asks only while the bucket
// is followed.
func (s *Store) KeepReplicas(ctx context.Context, js jetstream.JetStream) {
	timer := time.NewTimer(firstReplicasInterval)
	defer timer.Stop()
	warned := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(firstReplicasInterval)
		if !s.up.Load() {
			continue
		}
		has, clustered, err := s.countReplicas(ctx, js)
		if err != nil {
			s.opts.Logger.Debug("the bucket's replicas are not known", "error", err)
			continue
		}
		timer.Reset(replicasInterval)
		if has < s.opts.Replicas && has != warned && (clustered || s.opts.askedReplicas > 1) {
			warned = has
			s.opts.Logger.Warn("the bucket has fewer replicas than it should: NATS has no place for more. Run as many NATS "+
				"servers with JetStream as there should be replicas",
				"replicas", has, "wanted", s.opts.Replicas)
		}
	}
}

// countReplicas counts the copies, and raises them where there are too few.
func (s *Store) countReplicas(ctx context.Context, js jetstream.JetStream) (has int, clustered bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	stream, err := js.Stream(ctx, s.streamName)
	if err != nil {
		return 0, false, err
	}
	info := stream.CachedInfo()
	if has, err = replicas.Raise(ctx, js, info, s.opts.Replicas); err != nil {
		return 0, false, err
	}
	if had := info.Config.Replicas; has > had {
		s.opts.Logger.Info("the bucket has more replicas from now on", "replicas", has, "before", had)
	}
	if l := s.link.Load(); l != nil && l.replicas != has {
		s.link.CompareAndSwap(l, &link{js: l.js, stream: l.stream, replicas: has})
	}
	s.metrics.replicas.Store(int64(has))
	s.metrics.currentReplicas.Store(int64(replicas.Current(info)))
	return has, replicas.Clustered(info), nil
}
