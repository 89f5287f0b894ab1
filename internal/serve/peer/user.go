package peer

import "errors"

// ErrNoUser is the error of a connection whose user is unknown.
var ErrNoUser = errors.New("the kernel does not tell which user the connection is of")
