package remote

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// gsEndpoint is where Google Cloud Storage gives objects that are public.
const gsEndpoint = "https://storage.googleapis.com"

// fetchGS opens an object of Google Cloud Storage without a credential, as Ignition
// does outside of Google's cloud. Its timeouts, authorities and proxy are not those of
// a config there, and so not here.
func (f *fetcher) fetchGS(ctx context.Context, u *url.URL) (io.ReadCloser, error) {
	object := strings.TrimLeft(u.Path, "/")
	if u.Host == "" || object == "" {
		return nil, failf(Invalid, "it is not gs://BUCKET/OBJECT")
	}
	at, err := url.Parse(f.endpoints.GS)
	if err != nil {
		return nil, failf(Invalid, "the endpoint of gs is no URL")
	}
	plain := *f
	plain.settings = settings{headers: headerTimeout}
	return plain.get(ctx, plain.storageClient(), at.JoinPath(u.Host, object), http.Header{"User-Agent": f.client.header()["User-Agent"]})
}

// storageClient returns a client of a storage service. It follows no redirect.
func (f *fetcher) storageClient() *http.Client {
	return &http.Client{Transport: f.transport(), CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}
