package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"glowplug/internal/keyfile"
)

// clientTimeout bounds one request of a client command. It is longer than a server
// takes to render a config.
const clientTimeout = 45 * time.Second

// clientOptions say which server a client command talks to.
type clientOptions struct {
	server, kubeconfig string
	// notes gives the output for warnings; nil: there is none.
	notes  func() io.Writer
	warned sync.Once
}

func (o *clientOptions) addFlags(cmd *cobra.Command) {
	o.notes = cmd.ErrOrStderr
	cmd.Flags().StringVar(&o.server, "server", "",
		"URL of the server's admin listener, which needs no credential, as http://127.0.0.1:8081 or unix:PATH")
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", filepath.Join("glowplug-data", "admin.kubeconfig"), "kubeconfig of the server, which the first serve writes")
}

// config is how the server is reached: --server, else the kubeconfig.
func (o *clientOptions) config() (*rest.Config, error) {
	if path, ok := strings.CutPrefix(o.server, "unix:"); ok {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		return &rest.Config{Host: "http://localhost", Timeout: clientTimeout, Dial: dial}, nil
	}
	if o.server != "" {
		u, err := url.Parse(o.server)
		if err != nil || u.Host == "" {
			return nil, usagef("--server: %q is not a URL such as http://127.0.0.1:8081", o.server)
		}
		return &rest.Config{Host: o.server, Timeout: clientTimeout}, nil
	}
	if _, err := os.Stat(o.kubeconfig); errors.Is(err, os.ErrNotExist) {
		return nil, withHint(fmt.Errorf("no kubeconfig at %s", o.kubeconfig),
			"name the server with --server http://127.0.0.1:8081 (if it runs with --admin-listen 127.0.0.1:8081),"+
				" or its --kubeconfig DATA-DIR/admin.kubeconfig")
	}
	o.warned.Do(func() {
		if loose := keyfile.Loose(o.kubeconfig); loose != nil && o.notes != nil {
			fmt.Fprintf(o.notes(), "warning: %v\nhint: %s\n", loose, loose.Remedy)
		}
	})
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", o.kubeconfig, err)
	}
	config.Timeout = clientTimeout
	if staysHere(config.Host) {
		config.BearerToken = tokenOf(o.kubeconfig)
	}
	return config, nil
}

// staysHere tells whether a server is reached over plain HTTP that does not leave
// this machine: the door of a server without TLS. For plain HTTP the library leaves
// out the token that a kubeconfig has, wherever it leads.
func staysHere(server string) bool {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

// tokenOf is the token of the current user of a kubeconfig that has been read
// before; "" where there is none.
func tokenOf(kubeconfig string) string {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil || config.Contexts[config.CurrentContext] == nil {
		return ""
	}
	user := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo]
	if user == nil {
		return ""
	}
	return user.Token
}

// get fetches a path of the server; an error answer is an error with the
// server's own sentence.
func (o *clientOptions) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	return o.send(ctx, http.MethodGet, path, query, http.NoBody)
}

// send is get with another method and a body of JSON.
func (o *clientOptions) send(ctx context.Context, method, path string, query url.Values, content io.Reader) ([]byte, error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	address := strings.TrimSuffix(config.Host, "/") + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, err
	}
	if method != http.MethodGet {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, withHint(err, "is the server running, and reachable from here?")
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusCreated {
		return body, nil
	}
	return nil, refusal(resp, body)
}

// refusal turns an error answer into an error with a remedy.
func refusal(resp *http.Response, body []byte) error {
	message := strings.TrimSpace(string(body))
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		message = status.Message
	}
	var err error = &refusedError{resp.StatusCode, fmt.Sprintf("the server answered %s: %s", resp.Status, message)}
	if resp.StatusCode == http.StatusUnauthorized {
		return withHint(err,
			"give the server's --kubeconfig DATA-DIR/admin.kubeconfig, or the address of its --admin-listen with --server")
	}
	return err
}

// refusedError is an error answer of the server.
type refusedError struct {
	code    int
	message string
}

func (e *refusedError) Error() string { return e.message }

// isStatus tells whether an error is an answer of the server with this code.
func isStatus(err error, code int) bool {
	var refused *refusedError
	return errors.As(err, &refused) && refused.code == code
}
