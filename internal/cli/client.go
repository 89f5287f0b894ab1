package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
)

// clientOptions are the flags that name the server.
type clientOptions struct {
	server, kubeconfig, context, flagNamespace string
	// warn prints a warning with its remedy; nil: there are no warnings.
	warn func(message, remedy string)
	// connected is the client once there is one.
	connected *client.Client
}

func (o *clientOptions) addFlags(cmd *cobra.Command) {
	o.warn = warner(cmd)
	cmd.Flags().StringVar(&o.server, "server", "",
		"URL of the server: its admin listener, which needs no credential (http://127.0.0.1:8081 or unix:PATH),"+
			" or with --kubeconfig or --context another address than the kubeconfig's")
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", "",
		"kubeconfig of the server (default: $KUBECONFIG, glowplug-data/admin.kubeconfig or ~/.kube/config,"+
			" the first of them that is set or exists)")
	cmd.Flags().StringVar(&o.context, "context", "", "context of the kubeconfig (default: its current one)")
	if err := cmd.RegisterFlagCompletionFunc("context", o.completeContexts); err != nil {
		panic(err) // the flag does not exist
	}
}

// config returns the configuration of the client: --server, else the kubeconfig.
func (o *clientOptions) config() (*rest.Config, error) {
	if path, ok := strings.CutPrefix(o.server, "unix:"); ok {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		return &rest.Config{Host: "http://localhost", Dial: dial}, nil
	}
	if o.server != "" {
		u, err := url.Parse(o.server)
		if err != nil || u.Host == "" {
			return nil, usagef("--server: %q is not a URL such as http://127.0.0.1:8081", o.server)
		}
	}
	if o.usesKubeconfig() {
		return o.kubeconfigClient()
	}
	return &rest.Config{Host: o.server}, nil
}

// usesKubeconfig reports whether a kubeconfig has the credential.
func (o *clientOptions) usesKubeconfig() bool {
	return o.server == "" || o.kubeconfig != "" || o.context != ""
}

// connect returns the client of the server, once that is known to be glowplug.
func (o *clientOptions) connect(ctx context.Context) (*client.Client, error) {
	if o.connected != nil {
		return o.connected, nil
	}
	c, address, err := o.dial()
	if err != nil {
		return nil, err
	}
	if err := checkServer(ctx, c, address, o.usesKubeconfig()); err != nil {
		return nil, err
	}
	o.connected = c
	return c, nil
}

// dial returns a client of whatever server is at the address.
func (o *clientOptions) dial() (c *client.Client, address string, err error) {
	config, err := o.config()
	if err != nil {
		return nil, "", err
	}
	c, err = client.New(config)
	return c, cmp.Or(o.server, config.Host), err
}

// do sends a request and reads the answer into out, as client.Client does. Its errors
// have a remedy.
func (o *clientOptions) do(ctx context.Context, r client.Request, out any) error {
	c, err := o.connect(ctx)
	if err != nil {
		return err
	}
	_, err = c.Do(ctx, &r, out)
	return remedied(err)
}

// create creates an object, reads it into out and prints the warnings; created is false if there is one of its name.
func (o *clientOptions) create(ctx context.Context, notes io.Writer, r client.Request, out any) (
	created bool, err error,
) {
	c, err := o.connect(ctx)
	if err != nil {
		return false, err
	}
	r.Method = http.MethodPost
	header, err := c.Do(ctx, &r, out)
	printWarnings(notes, client.Warnings(header))
	if client.Code(err) == http.StatusConflict {
		return false, nil
	}
	return err == nil, remedied(err)
}

// findHost returns the host of that name as glowplug explain does: in the namespace of the flag or of the
// context, else the only host with the name.
func (o *clientOptions) findHost(ctx context.Context, name string) (namespace, host string, err error) {
	if namespace, host, ok := strings.Cut(name, "/"); ok {
		return namespace, host, nil
	}
	if o.flagNamespace != "" {
		return o.flagNamespace, name, nil
	}
	answer, err := o.explained(ctx, url.Values{"host": {name}, "namespace": {o.currentNamespace()}})
	if err != nil {
		return "", "", err
	}
	namespace, host, _ = strings.Cut(answer.Host, "/")
	return namespace, host, nil
}

// readHost reads the host that findHost finds.
func (o *clientOptions) readHost(ctx context.Context, name string) (*v1.BareMetalHost, error) {
	namespace, name, err := o.findHost(ctx, name)
	if err != nil {
		return nil, err
	}
	host := &v1.BareMetalHost{}
	err = o.do(ctx, client.Request{Resource: kinds.BareMetalHosts, Namespace: namespace, Name: name}, host)
	return host, inNamespace(err, namespace)
}

// findBoots is findHost for the boots of a host, which may be gone.
func (o *clientOptions) findBoots(ctx context.Context, name string) (namespace, host string, err error) {
	namespace, host, err = o.findHost(ctx, name)
	if client.Code(err) == http.StatusNotFound {
		return o.namespace(), name, nil
	}
	return namespace, host, err
}

// inNamespace adds to the answer that an object is not there where it was looked for.
func inNamespace(err error, namespace string) error {
	if client.Code(err) != http.StatusNotFound {
		return err
	}
	return withHint(err, "it was looked for in the namespace "+namespace+": -n names another one")
}

// read reads what a server gives to everybody, such as the metadata of a stream: from
// --server alone no credential is sent, and none is needed.
func (o *clientOptions) read(ctx context.Context, r client.Request, out any) error {
	if o.usesKubeconfig() {
		return o.do(ctx, r, out)
	}
	c, _, err := o.dial()
	if err != nil {
		return err
	}
	_, err = c.Do(ctx, &r, out)
	return remedied(err)
}

// remedied adds a remedy to an error of the client.
func remedied(err error) error {
	var (
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		header  tls.RecordHeaderError
	)
	switch {
	case client.Code(err) == http.StatusUnauthorized:
		return withHint(err,
			"give the server's --kubeconfig DATA-DIR/admin.kubeconfig, or the address of its --admin-listen with --server")
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return withHint(err, "the CA of this server is not known here, or has changed: copy the server's"+
			" DATA-DIR/admin.kubeconfig again, and name it with --kubeconfig")
	case errors.As(err, &name):
		return withHint(err, "use a name or address that the certificate is valid for,"+
			" or start the server with --tls-san "+name.Host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return withHint(err, "check the clocks of this machine and of the server")
	case errors.As(err, &header) || errors.Is(err, http.ErrSchemeMismatch):
		return withHint(err, "this listener has no TLS: use http://, or the address of --listen-tls")
	case errors.As(err, new(*url.Error)):
		return withHint(err, "is the server running, and reachable from here?")
	}
	return err
}
