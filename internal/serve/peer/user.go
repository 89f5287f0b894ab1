package peer

import "errors"

// ErrNoUser is given where it cannot be told which user a connection is of.
var ErrNoUser = errors.New("the kernel does not tell which user the connection is of")
