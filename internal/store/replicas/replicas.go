// Package replicas decides how many servers of a NATS cluster hold a stream. A
// client cannot ask for the number of servers that have JetStream, so it asks for
// the copies that it wants, and for fewer where the cluster has no place for them.
package replicas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Default is how many servers of a large enough cluster hold a stream where no number
// is set: the fewest that survive the death of any one of them.
const Default = 3

// Max is the most that NATS allows.
const Max = 5

// noPlace are the answers that mean that so many copies cannot be placed.
var noPlace = []jetstream.ErrorCode{
	10005, // no suitable peers
	10023, // insufficient resources
	10047, // insufficient storage
	10074, // not a cluster
	10120, // the account has no limits for so many copies
}

// Wanted returns the number that is aimed at: asked, or Default where it is 0.
func Wanted(asked int) int { return cmp.Or(asked, Default) }

// Create makes a stream with as many copies as are wanted, or with as many as can
// be placed. A stream of the same name that another made meanwhile is taken as it
// is.
func Create(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig, wanted int) (jetstream.Stream,
	error) {
	for cfg.Replicas = max(wanted, 1); ; cfg.Replicas-- {
		stream, err := js.CreateStream(ctx, cfg)
		switch {
		case err == nil:
			return stream, nil
		case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
			return js.Stream(ctx, cfg.Name)
		case cfg.Replicas == 1 || !hasNoPlace(err):
			return nil, err
		}
	}
}

// Raise gives a stream more copies, if it has fewer than are wanted and the cluster
// has a place for them, and returns their new number. It never removes a copy, and
// leaves a stream without a leader alone.
func Raise(ctx context.Context, js jetstream.JetStream, info *jetstream.StreamInfo, wanted int) (int, error) {
	cfg := info.Config
	had := cfg.Replicas
	if had >= wanted || !Clustered(info) || info.Cluster.Leader == "" {
		return had, nil
	}
	for cfg.Replicas = wanted; cfg.Replicas > had; cfg.Replicas-- {
		_, err := js.UpdateStream(ctx, cfg)
		if err == nil {
			return cfg.Replicas, nil
		}
		if !hasNoPlace(err) {
			return had, fmt.Errorf("raising the replicas of %s from %d to %d: %w", cfg.Name, had, cfg.Replicas, err)
		}
	}
	return had, nil
}

// Clustered reports whether the server that answered is one of a cluster.
func Clustered(info *jetstream.StreamInfo) bool {
	return info.Cluster != nil && info.Cluster.Name != ""
}

// maxSilence is for how long a leader may have heard nothing of a follower that
// still counts as its own: NATS elects another leader after 4 s at the earliest.
const maxSilence = 3 * time.Second

// Led reports whether an answer about a stream comes from a server that follows a
// leader of it, and that a majority has not left. What another server says may be
// old, or not true any more: a leader that was replaced names itself for a while.
func Led(info *jetstream.StreamInfo) bool {
	if info.Cluster == nil {
		return true
	}
	heard := 1
	for _, peer := range info.Cluster.Replicas {
		if !peer.Offline && peer.Active < maxSilence {
			heard++
		}
	}
	return info.Cluster.Leader != "" && 2*heard > 1+len(info.Cluster.Replicas)
}

// Current counts the servers that hold the newest state of a stream.
func Current(info *jetstream.StreamInfo) int {
	if !Clustered(info) {
		return 1
	}
	n := 0
	if info.Cluster.Leader != "" {
		n = 1
	}
	for _, peer := range info.Cluster.Replicas {
		if peer.Current && !peer.Offline {
			n++
		}
	}
	return n
}

func hasNoPlace(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && slices.Contains(noPlace, api.ErrorCode)
}
