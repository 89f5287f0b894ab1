package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"glowplug/internal/client"
)

// consolePath is the path of the web console.
const consolePath = "/console/"

// consoleCommand opens the web console.
type consoleCommand struct {
	clientOptions
	noOpen     bool
	out, notes io.Writer
}

func newConsoleCommand() *cobra.Command {
	var c consoleCommand
	cmd := &cobra.Command{
		Use: "console", Short: "Open the web console of a server in a browser, signed in",
		Long: `Print the URL of the web console of a server, and open it where there is a desktop.

With a kubeconfig the URL is a link that signs a browser in as the user of the token in the
kubeconfig. It works once, within a minute, in any browser that reaches the server: give it to
nobody. The browser has to trust the CA of the server; the command says where that is. With a
client certificate instead of a token, the browser needs the certificate.

With --server alone, the address of an admin listener, nobody has to sign in.

The link is an argument of the program that opens the browser, which other users of this
machine may see: with --no-open it is printed only.`,
		Example: `  glowplug console
  glowplug console --server http://127.0.0.1:8081
  glowplug console --kubeconfig boot.kubeconfig --no-open`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.out, c.notes = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return c.run(cmd.Context())
		},
	}
	c.addFlags(cmd)
	cmd.Flags().BoolVar(&c.noOpen, "no-open", false, "print the URL, and open no browser")
	return cmd
}

func (c *consoleCommand) run(ctx context.Context) error {
	if strings.HasPrefix(c.server, "unix:") {
		return withHint(usagef("--server: no browser opens a Unix socket"),
			"name a listener that it can open: --kubeconfig DATA-DIR/admin.kubeconfig, or an admin listener such as "+
				"http://127.0.0.1:8081")
	}
	config, err := c.config()
	if err != nil {
		return err
	}
	if as := config.Impersonate.UserName; as != "" {
		return withHint(fmt.Errorf("the kubeconfig acts as %s, and the console does not act as another user", as),
			"make a token for that user, as with glowplug token create")
	}
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	switch {
	case !c.usesKubeconfig():
		return c.open(ctx, address)
	case hasCertificateAlone(config):
		fmt.Fprintln(c.notes, "the kubeconfig has a client certificate and no token: a browser signs in by itself once it has "+
			"the certificate and its key, as a PKCS #12 file that openssl pkcs12 -export makes of both")
		c.nameAuthority(config)
		return c.open(ctx, address)
	}
	return c.openLink(ctx, config, address)
}

// openLink opens the console with a link that signs in once.
func (c *consoleCommand) openLink(ctx context.Context, config *rest.Config, address *url.URL) error {
	var link struct {
		Path    string `json:"path"`
		Seconds int    `json:"seconds"`
	}
	err := c.do(ctx, client.Request{Method: http.MethodPost, Path: consolePath + "link"}, &link)
	if err != nil {
		return consoleError(err, address)
	}
	if !strings.HasPrefix(link.Path, consolePath) {
		return errors.New("the server's answer cannot be read: it has no path of the console")
	}
	fmt.Fprintf(c.notes, "this link signs in once, within %d seconds:\n", link.Seconds)
	c.nameAuthority(config)
	return c.show(address, link.Path)
}

// open opens the console without a link, if the server has it.
func (c *consoleCommand) open(ctx context.Context, address *url.URL) error {
	if err := c.do(ctx, client.Request{Path: consolePath + "whoami"}, nil); err != nil {
		return consoleError(err, address)
	}
	return c.show(address, consolePath)
}

// show prints a URL and opens it.
func (c *consoleCommand) show(address *url.URL, path string) error {
	page := address.Scheme + "://" + address.Host + path
	if _, err := fmt.Fprintln(c.out, page); err != nil || c.noOpen {
		return err
	}
	if opener := browserOpener(); opener != "" {
		// It may run for as long as the browser.
		if err := exec.Command(opener, page).Start(); err != nil {
			fmt.Fprintf(c.notes, "warning: no browser is opened: %v\n", err)
		}
	}
	return nil
}

// browserOpener is the program that opens a URL in the browser of the desktop; "": there is none.
func browserOpener() string {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	} else if cmp.Or(os.Getenv("DISPLAY"), os.Getenv("WAYLAND_DISPLAY")) == "" {
		return ""
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// hasCertificateAlone reports whether the only credential of a config is a client certificate.
func hasCertificateAlone(config *rest.Config) bool {
	hasToken := config.BearerToken != "" || config.BearerTokenFile != "" || config.ExecProvider != nil ||
		config.AuthProvider != nil
	return !hasToken && (config.CertFile != "" || len(config.CertData) > 0)
}

// nameAuthority says which CA the browser has to trust, unless it is one that this machine trusts.
func (c *consoleCommand) nameAuthority(config *rest.Config) {
	at := config.CAFile
	if at == "" && len(config.CAData) > 0 {
		at = cmp.Or(c.authorityFile(config.CAData), "ca.crt in the folder pki of the server's data directory")
	}
	if at != "" {
		fmt.Fprintf(c.notes, "the browser has to trust the CA of the server: %s\n", at)
	}
}

// authorityFile is the file with a CA that is beside a kubeconfig, as in the data directory of a server; "": none.
func (c *consoleCommand) authorityFile(ca []byte) string {
	for _, file := range c.kubeconfigFiles().GetLoadingPrecedence() {
		path := filepath.Join(filepath.Dir(file), "pki", "ca.crt")
		if found, err := os.ReadFile(path); err == nil && bytes.Equal(bytes.TrimSpace(found), bytes.TrimSpace(ca)) {
			return path
		}
	}
	return ""
}

// consoleError says why there is no link. Without the console, its paths are any others of the API: it has none of
// them, and not everybody may ask for them.
func consoleError(err error, address *url.URL) error {
	code := client.Code(err)
	switch {
	case code == http.StatusNotFound, code == http.StatusForbidden && address.Scheme == "https":
		return withHint(errors.New("the server has no web console"),
			"it runs with --console=false, or its release is older than the console")
	case code == http.StatusForbidden:
		return withHint(err, "start the server with --listen-tls, or name its admin listener: --server http://127.0.0.1:8081")
	}
	return err
}
