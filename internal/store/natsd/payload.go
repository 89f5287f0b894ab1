package natsd

import (
	"fmt"

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
)

// CheckPayload says why the server that a connection leads to cannot hold the store:
// it takes only smaller messages than MaxPayload. Without a server there is no error.
func CheckPayload(nc *nats.Conn) error {
	if limit := nc.MaxPayload(); nc.IsConnected() && limit < MaxPayload {
		return fmt.Errorf("the NATS server takes messages of at most %d bytes, and the store needs %d: %s", limit, MaxPayload,
			PayloadRemedy)
	}
	return nil
}
