// Package fault names the ways in which a request of a machine can fail, and
// holds the one table of their HTTP status codes. The sentence for the client and
// the cause for the log are separate: the client's never holds a secret.
package fault

import "errors"

// Kind is a way to fail.
type Kind uint8

// The kinds, with the status that the table gives them.
const (
	Internal      Kind = iota // 500
	Malformed                 // 400: a parameter that cannot be read
	Refused                   // 403: a claim that does not hold
	NoMatch                   // 404: no config for this machine
	NotAcceptable             // 406: no form that this client reads
	Unavailable               // 503 + Retry-After: not ready, config not compiled, store never reached
)

// Error is a failed request.
type Error struct {
	Kind Kind
	// Sentence is the answer to the client: one sentence, no secrets.
	Sentence string
	// Cause is for the log alone.
	Cause error
}

// New returns an error with the sentence for the client.
func New(kind Kind, sentence string) *Error { return &Error{Kind: kind, Sentence: sentence} }

// LostBucket returns the error of a request that needs what was in a bucket that is missing.
func LostBucket(what string) *Error {
	return New(Unavailable, "the server's store is damaged, and lacks "+what+"; restore the bucket that the log names")
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Sentence + ": " + e.Cause.Error()
	}
	return e.Sentence
}

func (e *Error) Unwrap() error { return e.Cause }

// Of finds the Error in err; any other error is Internal, its text kept from
// the client.
func Of(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: Internal, Sentence: "internal error", Cause: err}
}

// statuses has the status code of each kind (RFC 9110, section 15).
var statuses = [...]int{
	Internal:      500,
	Malformed:     400,
	Refused:       403,
	NoMatch:       404,
	NotAcceptable: 406,
	Unavailable:   503,
}

// Status returns the HTTP status code of a kind.
func (k Kind) Status() int { return statuses[k] }
