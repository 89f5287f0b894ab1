package remote

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/vincent-petithory/dataurl"

	"glowplug/internal/domain/ignition"
	"glowplug/internal/egress"
)

// fetcher fetches what a URL names, by the settings of the configs.
type fetcher struct {
	dialer    *egress.Dialer
	endpoints Endpoints
	pause     func(context.Context, time.Duration) error
	transfers *sync.WaitGroup
	client    client
	settings  settings
}

// fetch returns the content that a reference names: unpacked, and checked against its hash.
func (s *session) fetch(ctx context.Context, ref *ignition.Reference) ([]byte, error) {
	u, err := url.Parse(ref.Source)
	if err != nil {
		return nil, failf(Invalid, "its source is no URL")
	}
	if u.Scheme != "data" && s.dialer.Policy.Nowhere() {
		return nil, failf(Refused, "fetching is off: --allow-fetch names the hosts and CIDRs that may be fetched from")
	}
	from, err := s.open(ctx, ref, u)
	if err != nil {
		return nil, err
	}
	content, err := s.read(from, ref.Compression)
	if closeErr := from.Close(); err == nil {
		err = closeErr
	}
	switch {
	case err == nil:
		return content, verify(content, ref.Hash)
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return nil, failf(TimedOut, "there was not all of it in time")
	case errors.As(err, new(*Error)):
		return nil, err
	}
	return nil, failf(Failed, "it could not be read to its end, which is final for a machine: %s", plain(err))
}

// open begins to fetch.
func (f *fetcher) open(ctx context.Context, ref *ignition.Reference, u *url.URL) (io.ReadCloser, error) {
	switch u.Scheme {
	case "http", "https":
		return f.fetchHTTP(ctx, ref, u)
	case "tftp":
		return f.fetchTFTP(ctx, u)
	case "s3", "arn":
		if ref.Compression != "" {
			return nil, failf(Invalid, "compression is not supported with %s, and fails on a machine", u.Scheme)
		}
		return f.fetchS3(ctx, u)
	case "gs":
		return f.fetchGS(ctx, u)
	case "data":
		// The text as it is: a URL that is formatted again may be another one.
		content, err := dataurl.DecodeString(ref.Source)
		if err != nil {
			return nil, failf(Invalid, "its data: URL cannot be read")
		}
		return io.NopCloser(bytes.NewReader(content.Data)), nil
	}
	return nil, failf(Invalid, "its scheme %.20q is none of http, https, tftp, s3, arn, gs, data", u.Scheme)
}

// read takes what comes, unpacked, as far as the bounds go.
func (s *session) read(from io.Reader, compression string) ([]byte, error) {
	limit := min(maxPart, s.bytesLeft)
	switch compression {
	case "":
	case "gzip":
		unpacked, err := gzip.NewReader(from)
		if err != nil {
			return nil, failf(Failed, "it is not compressed with gzip, as the config says")
		}
		from = unpacked
	default:
		return nil, failf(Invalid, "compression %.20q is not gzip", compression)
	}
	content, err := io.ReadAll(io.LimitReader(from, int64(limit)+1))
	switch {
	case len(content) > maxPart:
		return nil, failf(Invalid, "it has more than %d bytes", maxPart)
	case len(content) > limit:
		return nil, failf(Invalid, "all that is fetched has more than %d bytes", maxTotal)
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		return nil, failf(Failed, "its gzip is damaged")
	}
	s.bytesLeft -= len(content)
	return content, err
}

// verify holds content against a hash such as "sha512-0f…"; an empty one takes all.
func verify(content []byte, want string) error {
	if want == "" {
		return nil
	}
	function, sum, _ := strings.Cut(want, "-")
	var got string
	switch function {
	case "sha512":
		got = fmt.Sprintf("%x", sha512.Sum512(content))
	case "sha256":
		got = fmt.Sprintf("%x", sha256.Sum256(content))
	default:
		return failf(Invalid, "its hash is neither sha512-… nor sha256-…")
	}
	if got != sum {
		return failf(Failed, "its hash is not %s-%.16s…, which the config wants", function, sum)
	}
	return nil
}
