package boots

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/question"
	"glowplug/internal/store/replicas"
	"glowplug/internal/store/session"
)

// keptStream is a stream that no answer to a machine needs, so a missing one is made again. It lives while Run does.
type keptStream struct {
	opts   HistoryOptions
	config jetstream.StreamConfig
	// what names the stream in sentences, and lost what is not kept without it.
	what, lost string
	// reopen has a message after the stream was missed.
	reopen chan struct{}

	mu     sync.Mutex
	js     jetstream.JetStream
	stream jetstream.Stream
	// down says why the stream cannot be used; nil while it can.
	down error
}

func newKeptStream(opts HistoryOptions, config jetstream.StreamConfig, what, lost string) *keptStream {
	return &keptStream{
		opts: opts, config: config, what: what, lost: lost, reopen: make(chan struct{}, 1),
		down: errors.New(what + " was not opened yet"),
	}
}

// Run keeps the stream open until ctx ends, over every loss of the server.
func (s *keptStream) Run(ctx context.Context, js jetstream.JetStream) {
	sessions := &session.Follower{JS: js, Logger: s.opts.Logger,
		Message: s.what + " cannot be used: " + s.lost + " are not kept",
		Refused: func(error) bool { return false },
		Down:    func(err error) { s.set(nil, nil, err) }}
	existed := false
	sessions.Session = func(ctx context.Context) error {
		for {
			stream, err := s.open(ctx, js, existed)
			if err != nil {
				return err
			}
			existed = true
			sessions.Following()
			s.set(js, stream, nil)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-s.reopen:
			}
		}
	}
	sessions.Run(ctx)
	s.set(nil, nil, errors.New(s.what+" is closed"))
}

func (s *keptStream) set(js jetstream.JetStream, stream jetstream.Stream, down error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.js, s.stream, s.down = js, stream, down
}

// use returns the stream.
func (s *keptStream) use() (jetstream.JetStream, jetstream.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.js, s.stream, s.down
}

// noticed has the stream made again if an error says that it is missing, and returns the error.
func (s *keptStream) noticed(err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrNoStreamResponse) {
		notify(s.reopen)
	}
	return err
}

// open finds the stream or makes it, and gives it the limits.
func (s *keptStream) open(ctx context.Context, js jetstream.JetStream, existed bool) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if s.opts.Guard != nil {
		if err := s.opts.Guard(ctx, js); err != nil {
			return nil, err
		}
	}
	stream, err := question.Ask(ctx, func(ctx context.Context) (jetstream.Stream, error) {
		return js.Stream(ctx, s.config.Name)
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if existed {
			s.opts.Logger.Error(s.what+" is missing: a new one begins", "stream", s.config.Name)
		}
		stream, err = replicas.Create(ctx, js, s.config, s.opts.Replicas)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the stream %s: %w", s.config.Name, err)
	}
	cfg := stream.CachedInfo().Config
	cfg.Replicas, err = replicas.Raise(ctx, js, stream.CachedInfo(), s.opts.Replicas)
	if err != nil || cfg.Replicas < s.opts.Replicas {
		s.opts.Logger.Debug(s.what+" has fewer replicas than it should", "replicas", cfg.Replicas, "error", err)
	}
	if cfg.MaxAge == s.config.MaxAge && cfg.MaxBytes == s.config.MaxBytes &&
		cfg.MaxMsgsPerSubject == s.config.MaxMsgsPerSubject {
		return stream, nil
	}
	cfg.MaxAge, cfg.MaxBytes, cfg.MaxMsgsPerSubject = s.config.MaxAge, s.config.MaxBytes, s.config.MaxMsgsPerSubject
	if stream, err = js.UpdateStream(ctx, cfg); err != nil {
		return nil, fmt.Errorf("setting the limits of the stream %s: %w", s.config.Name, err)
	}
	return stream, nil
}
