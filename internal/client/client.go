// Package client is the client of the server's own Kubernetes API: for the command
// line, for the manifests that are applied at the start, and for controllers that write
// through the API.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/manifest"
)

const (
	// requestTimeout bounds one request. It is longer than a server takes to render a
	// config.
	requestTimeout = 45 * time.Second
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 64 << 20
)

// Client sends requests to one server.
type Client struct{ rest *rest.RESTClient }

// New returns a client of the server that a config names, with the credentials in it.
func New(config *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(v1.AddToScheme(scheme))
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/api", &v1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.WarningHandler = rest.NoWarnings{}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Client{client}, nil
}

// Close closes the connections that are idle.
func (c *Client) Close() { c.rest.Client.CloseIdleConnections() }

// Request is a request for an object, for all of a resource where Name is "", and for
// those of all namespaces where Namespace is "", too.
type Request struct {
	// Method is GET where it is "".
	Method                                 string
	Resource, Namespace, Name, Subresource string
	// Root is the path of the API group of the resource, such as /apis/GROUP/v1; "": that of the
	// legacy core group.
	Root string
	// Path is asked for instead of a resource; it is escaped.
	Path  string
	Query url.Values
	// Body is bytes, or an object to be sent as JSON; nil: there is none.
	Body any
	// Upload is a body of Length bytes instead, whose request may take any time.
	Upload io.Reader
	Length int64
	// Download takes the body of an answer of any length that is a success, and whose request may take any time; nil:
	// the answer is read into memory. The trailers of the answer are among its headers then.
	Download io.Writer
	// Header has more headers, such as a Content-Type other than application/json.
	Header map[string]string
}

// url returns the address of a request.
func (c *Client) url(r *Request) (string, error) {
	at := c.rest.Verb(r.Method)
	if r.Path != "" {
		at = at.AbsPath("/")
	} else {
		if r.Root != "" {
			at = at.AbsPath(r.Root) // instead of the path of the legacy core group
		}
		at = at.Namespace(r.Namespace).Resource(r.Resource)
		if r.Name != "" {
			at = at.Name(r.Name).SubResource(r.Subresource)
		}
	}
	if err := at.Error(); err != nil {
		return "", err
	}
	address := strings.TrimSuffix(at.URL().String(), "/") + r.Path
	if len(r.Query) > 0 {
		address += "?" + r.Query.Encode()
	}
	return address, nil
}

// Do sends a request and reads the answer into out: a *[]byte as it is, anything else as
// JSON, nil not at all. It returns the header of the answer. An answer that is no success
// is an error of type *Refused.
func (c *Client) Do(ctx context.Context, r *Request, out any) (http.Header, error) {
	body, length := r.Upload, r.Length
	if r.Upload == nil {
		content, ok := r.Body.([]byte)
		if !ok && r.Body != nil {
			var err error
			if content, err = json.Marshal(r.Body); err != nil {
				return nil, err
			}
		}
		body, length = bytes.NewReader(content), int64(len(content))
	}
	if r.Upload == nil && r.Download == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, requestTimeout)
		defer cancel()
	}
	address, err := c.url(r)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, address, body)
	if err != nil {
		return nil, err
	}
	if req.ContentLength = length; length == 0 {
		req.Body = http.NoBody
	}
	req.Header.Set("Accept", "application/json, */*")
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.Header {
		req.Header.Set(name, value)
	}
	resp, err := c.rest.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if r.Download != nil && resp.StatusCode == http.StatusOK {
		_, err := io.Copy(r.Download, resp.Body)
		maps.Copy(resp.Header, resp.Trailer)
		return resp.Header, err
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return resp.Header, refused(resp, answer)
	}
	return resp.Header, decode(answer, out)
}

func decode(answer []byte, out any) error {
	switch out := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*out = answer
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	return nil
}

// Watcher returns a source of watches of one object.
func (c *Client) Watcher(resource, namespace, name string) *cache.ListWatch {
	return cache.NewFilteredListWatchFromClient(c.rest, resource, namespace, func(opts *metav1.ListOptions) {
		opts.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	})
}

// Warnings returns the texts of an answer's Warning headers.
func Warnings(header http.Header) []string {
	parsed, _ := utilnet.ParseWarningHeaders(header["Warning"])
	texts := make([]string, 0, len(parsed))
	for _, w := range parsed {
		texts = append(texts, w.Text)
	}
	return texts
}

// Refused is an answer that is no success.
type Refused struct {
	Code int
	// Message is the server's sentence.
	Message string
	// Resource is what the answer is about, such as baremetalhosts; "" where it names none.
	Resource string
	// retryAfter reports whether the server asks for another try.
	retryAfter bool
}

func (e *Refused) Error() string {
	return fmt.Sprintf("the server answered %d %s: %s", e.Code, http.StatusText(e.Code), e.Message)
}

func refused(resp *http.Response, answer []byte) error {
	e := &Refused{
		Code: resp.StatusCode, Message: strings.TrimSpace(string(answer)),
		retryAfter: resp.Header.Get("Retry-After") != "",
	}
	var status metav1.Status
	if json.Unmarshal(answer, &status) == nil && status.Message != "" {
		e.Message = status.Message
		if status.Details != nil {
			e.Resource = status.Details.Kind
		}
	}
	return e
}

// Code returns the HTTP status of an error that is an answer of the server, and 0 of any
// other.
func Code(err error) int {
	var refused *Refused
	if errors.As(err, &refused) {
		return refused.Code
	}
	return 0
}

// IsMissing reports whether an error is the server's answer that it has no such object of a
// resource.
func IsMissing(err error, resource string) bool {
	var refused *Refused
	return errors.As(err, &refused) && refused.Code == http.StatusNotFound && refused.Resource == resource
}

// MayRetry reports whether the same request may succeed later: it had no answer, or one of
// a server that asks for another try or is overloaded.
func MayRetry(err error) bool {
	var refused *Refused
	if !errors.As(err, &refused) {
		return true
	}
	overloaded := []int{http.StatusRequestTimeout, http.StatusServiceUnavailable, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusGatewayTimeout}
	return refused.retryAfter || slices.Contains(overloaded, refused.Code)
}

// RequestFor returns a request for the object of a document, to read it.
func RequestFor(doc *manifest.Document) (*Request, error) {
	if doc.Err != nil {
		return nil, doc.Err
	}
	kind := kinds.InManifests(doc.Kind)
	if kind == nil || doc.APIVersion != kind.GroupVersion.String() {
		return nil, fmt.Errorf("%s %s is no kind of this server", doc.APIVersion, doc.Kind)
	}
	r := &Request{Resource: kind.Resource, Name: doc.Name}
	if kind.Group != v1.GroupName {
		r.Root = "/apis/" + doc.APIVersion
	}
	if kind.Namespaced {
		r.Namespace = cmp.Or(doc.Namespace, v1.NamespaceDefault)
	}
	return r, nil
}

// Apply writes the object of a document by server-side apply, as the field manager of
// that name, which takes over the fields of others. The query has more parameters, such
// as dryRun. The object as it is stored is read into out. It returns the server's
// warnings.
func (c *Client) Apply(
	ctx context.Context, doc *manifest.Document, manager string, query url.Values, out any,
) ([]string, error) {
	r, err := RequestFor(doc)
	if err != nil {
		return nil, err
	}
	r.Method, r.Body = http.MethodPatch, doc.YAML
	r.Header = map[string]string{"Content-Type": string(types.ApplyYAMLPatchType)}
	r.Query = url.Values{"force": {"true"}, "fieldManager": {manager}}
	maps.Copy(r.Query, query)
	header, err := c.Do(ctx, r, out)
	if err != nil {
		return nil, err
	}
	return Warnings(header), nil
}
