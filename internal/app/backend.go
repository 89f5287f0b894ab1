package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/kvstore"
	"glowplug/internal/natsd"
)

// backend is the NATS that the stores lie in: embedded, or somebody else's.
type backend struct {
	js        jetstream.JetStream
	ledger    kvstore.Ledger // of the embedded store; nil for an external one
	room      func() error   // likewise
	exclusive bool
	where     string // for the banner
	close     func()
}

func openBackend(ctx context.Context, s *settings, log *slog.Logger) (*backend, error) {
	if s.NATSURL != "" {
		return dialBackend(s, log)
	}
	server, err := natsd.Start(ctx, natsd.Options{DataDir: s.DataDir, Logger: log})
	if err != nil {
		return nil, err
	}
	b := &backend{ledger: server, room: server.Room, exclusive: true, close: func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			log.Error("stopping the store", "error", err)
		}
	}}
	if b.where, err = filepath.Abs(s.DataDir); err != nil {
		b.where = s.DataDir
	}
	conn, err := server.Connect()
	if err == nil {
		b.js, err = jetstream.New(conn)
	}
	if err != nil {
		b.close()
		return nil, fmt.Errorf("embedded store: %w", err)
	}
	return b, nil
}

func dialBackend(s *settings, log *slog.Logger) (*backend, error) {
	var options []nats.Option
	if s.NATSCreds != "" {
		options = append(options, nats.UserCredentials(s.NATSCreds))
	}
	conn, err := natsd.Dial(s.NATSURL, log, options...)
	if err != nil {
		return nil, &OptionError{Flag: "nats-url", Reason: err.Error()}
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("external store: %w", err)
	}
	return &backend{js: js, where: "NATS at " + redacted(s.NATSURL), close: conn.Close}, nil
}
