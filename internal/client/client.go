// Package client is the client of the server's own Kubernetes API: for the command
// line, for the manifests that are applied at the start, and for controllers that write
// through the API.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	v1 "glowplug/api/v1"
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
	// Path is asked for instead of a resource; it is escaped.
	Path  string
	Query url.Values
	// Body is bytes, or an object to be sent as JSON; nil: there is none.
	Body any
	// Upload is a body of Length bytes instead, whose request may take any time.
	Upload io.Reader
	Length int64
	// Header has more headers, such as a Content-Type other than application/json.
	Header map[string]string
}

// url returns the address of a request.
func (c *Client) url(r *Request) (string, error) {
	at := c.rest.Verb(r.Method)
	if r.Path != "" {
		at = at.AbsPath("/")
	} else {
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
