package remote

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// firstRegions are asked for the region of a bucket, by the partition that it is in.
var firstRegions = map[string]string{"aws": "us-east-1", "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}

// object is what an s3 or arn URL names.
type object struct {
	// bucket is a name, or the ARN of an access point.
	bucket, key, version string
	// region is empty where the bucket has to be asked for it, in hint.
	region, hint string
}

// fetchS3 opens an object of S3 without a credential. Ignition brings that of the
// machine it runs on, where that is one of Amazon's; a credential of this server is
// none of a config's business.
func (f *fetcher) fetchS3(ctx context.Context, u *url.URL) (io.ReadCloser, error) {
	o, err := objectOf(u)
	if err != nil {
		return nil, err
	}
	cancel := context.CancelFunc(func() {})
	if f.settings.total > 0 {
		ctx, cancel = context.WithTimeout(ctx, f.settings.total)
	}
	spy := &regionSpy{client: f.storageClient()}
	if o.region == "" {
		_, err := f.s3(o.hint, spy).HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &o.bucket})
		if o.region = spy.region; o.region == "" {
			if err != nil {
				cancel()
				return nil, s3Error(ctx, "the bucket's region is not known", err)
			}
			o.region = o.hint
		}
	}
	in := &s3.GetObjectInput{Bucket: &o.bucket, Key: &o.key}
	if o.version != "" {
		in.VersionId = &o.version
	}
	out, err := f.s3(o.region, spy).GetObject(ctx, in)
	if err != nil {
		cancel()
		return nil, s3Error(ctx, "the object cannot be fetched", err)
	}
	return &body{out.Body, cancel}, nil
}

// s3 is a client for a region. It has only the settings given here: nothing from the
// environment, from files or from a metadata service.
func (f *fetcher) s3(region string, through s3.HTTPClient) *s3.Client {
	o := s3.Options{
		Region: region, Credentials: aws.AnonymousCredentials{}, HTTPClient: through, Retryer: retryer(),
		EndpointOptions: s3.EndpointResolverOptions{UseDualStackEndpoint: aws.DualStackEndpointStateEnabled},
	}
	if f.endpoints.S3 != "" {
		o.BaseEndpoint, o.UsePathStyle = &f.endpoints.S3, true
		o.EndpointOptions.UseDualStackEndpoint = aws.DualStackEndpointStateDisabled
	}
	return s3.New(o)
}

// retryer tries again what the library would, but for what is final.
func retryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			if isFinal(err) {
				return aws.FalseTernary
			}
			return aws.UnknownTernary
		})}, o.Retryables...)
	})
}

// regionSpy reads the region of a bucket from whatever S3 answers: a refusal names
// it, too.
type regionSpy struct {
	client *http.Client
	region string
}

// Do implements s3.HTTPClient.
func (s *regionSpy) Do(req *http.Request) (*http.Response, error) {
	resp, err := s.client.Do(req)
	if err == nil {
		if region := resp.Header.Get("X-Amz-Bucket-Region"); region != "" {
			s.region = region
		}
	}
	return resp, err
}

// s3Error keeps of an error of the library what says something, without its URLs.
func s3Error(ctx context.Context, what string, err error) error {
	var answered *awshttp.ResponseError
	switch {
	case errors.As(err, new(*Error)):
		return err
	case ctx.Err() != nil:
		return timedOut(what)
	case errors.As(err, &answered):
		return failf(Failed, "%s: the server answered %s", what, statusText(answered.HTTPStatusCode()))
	}
	return failf(Failed, "%s: %s", what, plain(err))
}

// objectOf reads an s3 or arn URL as Ignition does.
func objectOf(u *url.URL) (*object, error) {
	o := &object{hint: firstRegions["aws"], version: u.Query().Get("versionId")}
	if u.Scheme == "s3" {
		o.bucket, o.key = u.Host, strings.TrimLeft(u.Path, "/")
		if o.bucket == "" || o.key == "" {
			return nil, failf(Invalid, "it is not s3://BUCKET/KEY")
		}
		return o, nil
	}
	name := u.Scheme + ":" + u.Opaque
	parsed, err := arn.Parse(name)
	if err != nil || parsed.Service != "s3" {
		return nil, failf(Invalid, "it is not the ARN of an object in S3")
	}
	if hint := firstRegions[parsed.Partition]; hint != "" {
		o.hint = hint
	}
	parts := strings.Split(name, "/")
	if strings.HasPrefix(parsed.Resource, "accesspoint/") {
		if len(parts) < 4 || parts[2] != "object" {
			return nil, failf(Invalid, "it is not the ARN of an object behind an access point")
		}
		o.bucket, o.key, o.region = strings.Join(parts[:2], "/"), strings.Join(parts[3:], "/"), parsed.Region
		return o, nil
	}
	if len(parts) < 2 {
		return nil, failf(Invalid, "it is not the ARN of an object in S3")
	}
	o.bucket = parts[0][strings.LastIndexByte(parts[0], ':')+1:]
	o.key = strings.Join(parts[1:], "/")
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
