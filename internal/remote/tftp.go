package remote

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/pin/tftp/v3"
)

const (
	tftpPort = "69"
	// tftpWait is how long a packet is waited for, and tftpTries how often it is sent.
	// Together they bound the time of a transfer after its rendering has ended.
	tftpWait  = time.Second
	tftpTries = 5
)

// fetchTFTP fetches a whole file: the library pushes it, and only an error of its writer
// stops it.
func (f *fetcher) fetchTFTP(ctx context.Context, u *url.URL) (io.ReadCloser, error) {
	addrs, err := f.dialer.Resolve(ctx, u.Hostname())
	if err != nil {
		return nil, asRefused(err)
	}
	client, err := tftp.NewClient(net.JoinHostPort(addrs[0].String(), cmp.Or(u.Port(), tftpPort)))
	if err != nil {
		return nil, failf(Invalid, "its port is no number")
	}
	wait := tftpWait
	if deadline, ok := ctx.Deadline(); ok {
		wait = max(min(wait, time.Until(deadline)), time.Millisecond)
	}
	client.SetTimeout(wait)
	client.SetRetries(tftpTries)
	client.SetBackoff(func(int) time.Duration { return 0 })
	reader, writer := io.Pipe()
	stop := context.AfterFunc(ctx, func() { reader.CloseWithError(ctx.Err()) })
	f.transfers.Go(func() {
		transfer, err := client.Receive(u.Path, "octet")
		if err == nil {
			_, err = transfer.WriteTo(writer)
		}
		if err != nil {
			err = tftpError(err)
		}
		writer.CloseWithError(err)
	})
	return &body{reader, func() { stop() }}, nil
}

// tftpError reads the library's errors: those that the server sent have a code.
func tftpError(err error) error {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return failf(TimedOut, "the server did not answer in time")
	case errors.Is(err, io.ErrClosedPipe):
		return err
	case strings.HasPrefix(err.Error(), "code: 1,"):
		return failf(Failed, "the server has no such file")
	case strings.HasPrefix(err.Error(), "code: "):
		code, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "code: "), ",")
		return failf(Failed, "the server answered with error %s", code)
	}
	return failf(Failed, "%s", plain(err))
}
