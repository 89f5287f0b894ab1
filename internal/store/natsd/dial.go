package natsd

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// MaxPayload is the largest message, in bytes, that a server has to take, embedded
	// or external. A stored object holds what a request may have (8 MiB: a source of
	// 2 MiB, escaped, and the same once more in the annotation of kubectl apply) and
	// beside it its compilation in base64: alone, and merged over its layers (2.7 MiB
	// each for 2 MiB). That is 13.3 MiB, and the next power of two is 16 MiB.
	MaxPayload = 16 << 20
	// PayloadRemedy says what to do about a server that takes less.
	PayloadRemedy = "set max_payload: 16MB in the configuration of the NATS server and restart it"
	// MinVersion is the first release of NATS that stores a batch of messages whole or not at all. An earlier one
	// leaves what it does not know of a bucket's configuration out without an error.
	MinVersion = "2.12.0"
)

// CheckServer says why the server that a connection leads to cannot hold the store. Without a server
// there is no error.
func CheckServer(nc *nats.Conn) error {
	if err := CheckPayload(nc); err != nil {
		return err
	}
	return checkVersion(nc.ConnectedServerName(), nc.ConnectedServerVersion())
}

// checkVersion refuses a release before MinVersion. What is no version is a build of somebody's own, and no
// version at all is no server.
func checkVersion(name, has string) error {
	var v, least [2]int
	_, _ = fmt.Sscanf(MinVersion, "%d.%d", &least[0], &least[1])
	if n, _ := fmt.Sscanf(has, "%d.%d", &v[0], &v[1]); n < len(v) || slices.Compare(v[:], least[:]) >= 0 {
		return nil
	}
	return fmt.Errorf("the NATS server %s has version %s, and the store needs %s or newer, which store several messages "+
		"whole or not at all: update the NATS server", name, has, MinVersion)
}

// CheckPayload says why the server that a connection leads to cannot hold the store:
// it takes only smaller messages than MaxPayload. Without a server there is no error.
func CheckPayload(nc *nats.Conn) error {
	if limit := nc.MaxPayload(); nc.IsConnected() && limit < MaxPayload {
		return fmt.Errorf("the NATS server takes messages of at most %d bytes, and the store needs %d: %s", limit, MaxPayload,
			PayloadRemedy)
	}
	return nil
}

// Dial prepares a connection to an external server or cluster. It returns at
// once, whether or not anybody answers there, and connects, and reconnects, for
// as long as the connection is open. url may list several servers, separated by
// commas; an error means that it could not be read.
//
// Nothing is buffered while the server is away: a write fails instead of being
// delivered when nobody waits for it any more.
//
// extra are further options of the connection, such as credentials.
func Dial(url string, logger *slog.Logger, extra ...nats.Option) (*nats.Conn, error) {
	logger = cmp.Or(logger, slog.New(slog.DiscardHandler))
	failed := &failures{log: logger}
	connected := func(nc *nats.Conn) {
		failed.logged = nil
		logger.Info("connected to NATS", "url", Redacted(nc.ConnectedUrl()), "server", nc.ConnectedServerName())
		if err := CheckServer(nc); err != nil {
			logger.Error("the NATS server cannot hold the store", "error", err)
		}
	}
	nc, err := nats.Connect(url, append(extra,
		nats.Name(serverName),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(200*time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 200*time.Millisecond),
		nats.ReconnectBufSize(-1),
		nats.Timeout(2*time.Second),
		// A connection over which nothing comes is given up after a few seconds: after
		// a partition TCP would wait for longer than that before it tries again.
		nats.PingInterval(1500*time.Millisecond),
		nats.MaxPingsOutstanding(2),
		nats.ConnectHandler(connected),
		nats.ReconnectHandler(connected),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil: closed from here
				logger.Warn("NATS is away", "error", err)
			}
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { failed.add(err) }),
		// A password that is exchanged may be right a moment later.
		nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if isRefusal(err) {
				failed.add(err)
			}
			logger.Debug("NATS connection", "error", err)
		}),
	)...)
	if err != nil {
		return nil, fmt.Errorf("NATS URL: %w", err)
	}
	return nc, nil
}
