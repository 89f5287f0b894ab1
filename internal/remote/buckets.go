package remote

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// firstRegions are asked for a bucket whose region is unknown, by the partition that it is in.
var firstRegions = map[string]string{"aws": "us-east-1", "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}

// object is what an s3 or arn URL names.
type object struct {
	// bucket is the name of a bucket or, with account, of an access point.
	bucket, account, key, version string
	// region is the first to be asked.
	region string
}

// hostLabel is what can be a part of a host's name.
var hostLabel = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,61}[a-z0-9]$`)

// s3Tries bounds the requests to a region, as Ignition's client does.
const s3Tries = 3

// fetchS3 opens an object of S3 without a credential. Ignition brings that of the
// machine it runs on, where that is one of Amazon's; a credential of this server is
// none of a config's business. S3 names the region of a bucket when it refuses a request
// to another one.
func (f *fetcher) fetchS3(ctx context.Context, u *url.URL) (io.ReadCloser, error) {
	o, err := objectOf(u)
	if err != nil {
		return nil, err
	}
	ctx, cancel := f.within(ctx)
	resp, err := f.getObject(ctx, o)
	if err == nil && resp.StatusCode != http.StatusOK {
		region := resp.Header.Get("X-Amz-Bucket-Region")
		if o.account == "" && region != o.region && hostLabel.MatchString(region) {
			_ = resp.Body.Close()
			o.region = region
			resp, err = f.getObject(ctx, o)
		}
	}
	if err == nil && resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		err = failf(Failed, "the object cannot be fetched: the server answered %s", statusText(resp.StatusCode))
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &body{resp.Body, cancel}, nil
}

func (f *fetcher) getObject(ctx context.Context, o *object) (*http.Response, error) {
	at, err := o.url(f.endpoints.S3)
	if err != nil {
		return nil, err
	}
	header := http.Header{"User-Agent": f.client.header()["User-Agent"], "Accept-Encoding": {"identity"}}
	return f.ask(ctx, f.storageClient(), at, header, s3Tries)
}

// url returns where an object is: at Amazon, or at an endpoint in its place.
func (o *object) url(endpoint string) (string, error) {
	suffix := ".dualstack." + o.region + ".amazonaws.com"
	if strings.HasPrefix(o.region, "cn-") {
		suffix += ".cn"
	}
	// S3 reads a plus sign in a path as a space.
	escape := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
	path := "/" + strings.ReplaceAll(escape(o.key), "%2F", "/")
	at := endpoint
	switch {
	case o.account != "":
		name := o.bucket + "-" + o.account
		if !hostLabel.MatchString(name) || !hostLabel.MatchString(o.region) {
			return "", failf(Invalid, "it is not the ARN of an object behind an access point")
		}
		at = "https://" + name + ".s3-accesspoint" + suffix
	case endpoint == "" && hostLabel.MatchString(o.bucket):
		at = "https://" + o.bucket + ".s3" + suffix
	case endpoint == "": // no certificate is for a name with further dots
		at = "https://s3" + suffix
		fallthrough
	default:
		path = "/" + escape(o.bucket) + path
	}
	if o.version != "" {
		path += "?versionId=" + url.QueryEscape(o.version)
	}
	return at + path, nil
}

// objectOf reads an s3 or arn URL as Ignition does.
func objectOf(u *url.URL) (*object, error) {
	o := &object{region: firstRegions["aws"], version: u.Query().Get("versionId")}
	if u.Scheme == "s3" {
		o.bucket, o.key = u.Host, strings.TrimLeft(u.Path, "/")
		if o.bucket == "" || o.key == "" {
			return nil, failf(Invalid, "it is not s3://BUCKET/KEY")
		}
		return o, nil
	}
	// PARTITION:SERVICE:REGION:ACCOUNT:RESOURCE
	fields := strings.SplitN(u.Opaque, ":", 5)
	if len(fields) < 5 || fields[1] != "s3" {
		return nil, failf(Invalid, "it is not the ARN of an object in S3")
	}
	o.region = cmp.Or(firstRegions[fields[0]], o.region)
	parts := strings.Split(fields[4], "/")
	if parts[0] == "accesspoint" {
		if len(parts) < 4 || parts[2] != "object" || fields[3] == "" {
			return nil, failf(Invalid, "it is not the ARN of an object behind an access point")
		}
		o.region, o.account, o.bucket, o.key = fields[2], fields[3], parts[1], strings.Join(parts[3:], "/")
		return o, nil
	}
	if len(parts) < 2 {
		return nil, failf(Invalid, "it is not the ARN of an object in S3")
	}
	o.bucket, o.key = parts[0], strings.Join(parts[1:], "/")
	return o, nil
}

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
	header := http.Header{"User-Agent": f.client.header()["User-Agent"]}
	return plain.get(ctx, plain.storageClient(), at.JoinPath(u.Host, object), header)
}

// storageClient returns a client of a storage service. It follows no redirect.
func (f *fetcher) storageClient() *http.Client {
	return &http.Client{Transport: f.transport(), CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}
