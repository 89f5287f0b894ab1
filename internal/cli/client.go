package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"glowplug/internal/client"
	"glowplug/internal/keyfile"
)

// clientOptions are the flags that name the server.
type clientOptions struct {
	server, kubeconfig string
	// warn prints a warning with its remedy; nil: there are no warnings.
	warn func(warning error, remedy string)
	// connected is the client once there is one.
	connected *client.Client
}

func (o *clientOptions) addFlags(cmd *cobra.Command) {
	o.warn = func(warning error, remedy string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %v\nhint: %s\n", warning, remedy)
	}
	cmd.Flags().StringVar(&o.server, "server", "",
		"URL of the server's admin listener, which needs no credential: http://127.0.0.1:8081 or unix:PATH")
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", filepath.Join("glowplug-data", "admin.kubeconfig"),
		"kubeconfig of the server, which its first start writes")
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
		return &rest.Config{Host: o.server}, nil
	}
	if _, err := os.Stat(o.kubeconfig); errors.Is(err, os.ErrNotExist) {
		return nil, withHint(fmt.Errorf("no kubeconfig at %s", o.kubeconfig),
			"name the server with --server http://127.0.0.1:8081 (if it runs with --admin-listen 127.0.0.1:8081),"+
				" or its --kubeconfig DATA-DIR/admin.kubeconfig")
	}
	if loose := keyfile.Loose(o.kubeconfig); loose != nil && o.warn != nil {
		o.warn(loose, loose.Remedy)
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", o.kubeconfig, err)
	}
	// For plain HTTP the library leaves the token out. It is sent where the request does
	// not leave this machine, as to a server without TLS.
	if isLocalHTTP(config.Host) {
		config.BearerToken = tokenOf(o.kubeconfig)
	}
	return config, nil
}

// isLocalHTTP reports whether a URL is of plain HTTP to this machine.
func isLocalHTTP(server string) bool {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

// tokenOf returns the token of the current user of a kubeconfig; "" where there is none.
func tokenOf(kubeconfig string) string {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return ""
	}
	if current := config.Contexts[config.CurrentContext]; current != nil {
		if user := config.AuthInfos[current.AuthInfo]; user != nil {
			return user.Token
		}
	}
	return ""
}

// connect returns the client of the server.
func (o *clientOptions) connect() (*client.Client, error) {
	if o.connected == nil {
		config, err := o.config()
		if err != nil {
			return nil, err
		}
		if o.connected, err = client.New(config); err != nil {
			return nil, err
		}
	}
	return o.connected, nil
}

// do sends a request and reads the answer into out, as client.Client does. Its errors
// have a remedy.
func (o *clientOptions) do(ctx context.Context, r client.Request, out any) error {
	c, err := o.connect()
	if err != nil {
		return err
	}
	_, err = c.Do(ctx, &r, out)
	return remedied(err)
}

// remedied adds a remedy to an error of the client.
func remedied(err error) error {
	switch {
	case client.Code(err) == http.StatusUnauthorized:
		return withHint(err,
			"give the server's --kubeconfig DATA-DIR/admin.kubeconfig, or the address of its --admin-listen with --server")
	case errors.As(err, new(*url.Error)):
		return withHint(err, "is the server running, and reachable from here?")
	}
	return err
}
