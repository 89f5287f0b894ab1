package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/keyfile"
)

// localKubeconfig is the kubeconfig that a server started in this folder has written.
var localKubeconfig = filepath.Join("glowplug-data", "admin.kubeconfig")

// kubeconfigFiles returns the rules by which the kubeconfig is found, as kubectl finds
// it: --kubeconfig, $KUBECONFIG, ~/.kube/config; the one of a server in this folder comes
// before the last.
func (o *clientOptions) kubeconfigFiles() *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.MigrationRules, rules.WarnIfAllMissing = nil, false
	rules.ExplicitPath = o.kubeconfig
	if o.kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if _, err := os.Stat(localKubeconfig); err == nil {
			rules.ExplicitPath = localKubeconfig
		}
	}
	return rules
}

// loadKubeconfig reads the kubeconfig. Its context is --context, else the current one.
func (o *clientOptions) loadKubeconfig() (clientcmd.ClientConfig, error) {
	rules := o.kubeconfigFiles()
	const remedy = "name the server with --server http://127.0.0.1:8081 (if it runs with --admin-listen 127.0.0.1:8081)," +
		" or its --kubeconfig DATA-DIR/admin.kubeconfig (that of a package: /var/lib/glowplug/admin.kubeconfig)"
	raw, err := rules.Load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, withHint(fmt.Errorf("no kubeconfig at %s", rules.ExplicitPath), remedy)
	case err != nil:
		return nil, fmt.Errorf("the kubeconfig cannot be read: %w", err)
	case clientcmdapi.IsConfigEmpty(raw) && rules.ExplicitPath != "":
		return nil, withHint(fmt.Errorf("the kubeconfig %s is empty, or names no server", rules.ExplicitPath), remedy)
	case clientcmdapi.IsConfigEmpty(raw) && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "":
		return nil, withHint(fmt.Errorf("$KUBECONFIG names %s, which does not exist or is empty",
			os.Getenv(clientcmd.RecommendedConfigPathEnvVar)), remedy)
	case clientcmdapi.IsConfigEmpty(raw):
		return nil, withHint(fmt.Errorf("no kubeconfig at $KUBECONFIG, %s or %s", localKubeconfig,
			clientcmd.RecommendedHomeFile), remedy)
	}
	if o.context != "" && raw.Contexts[o.context] == nil {
		return nil, usagef("--context: the kubeconfig has no context %q", o.context)
	}
	for _, file := range rules.GetLoadingPrecedence() {
		if loose := keyfile.Loose(file); loose != nil && o.warn != nil {
			o.warn(loose.Error(), loose.Remedy)
		}
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.context}
	overrides.ClusterInfo.Server = o.server
	return clientcmd.NewNonInteractiveClientConfig(*raw, o.context, overrides, rules), nil
}

// completeContexts offers the contexts of the kubeconfig to the shell.
func (o *clientOptions) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	raw, err := o.kubeconfigFiles().Load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(raw.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// kubeconfigClient returns the configuration of the client by the kubeconfig.
func (o *clientOptions) kubeconfigClient() (*rest.Config, error) {
	loaded, err := o.loadKubeconfig()
	if err != nil {
		return nil, err
	}
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig names no server: %w", err)
	}
	// For plain HTTP the library leaves the token out. It is sent where the request does
	// not leave this machine, as to a server without TLS.
	if isLocalHTTP(config.Host) {
		config.BearerToken = o.tokenOf(loaded)
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

// tokenOf returns the token of the context's user; "" where there is none.
func (o *clientOptions) tokenOf(loaded clientcmd.ClientConfig) string {
	raw, err := loaded.RawConfig()
	current := o.currentContext(loaded)
	if err != nil || current == nil || raw.AuthInfos[current.AuthInfo] == nil {
		return ""
	}
	return raw.AuthInfos[current.AuthInfo].Token
}

// currentContext returns the context of --context, else the kubeconfig's own; nil: none.
func (o *clientOptions) currentContext(loaded clientcmd.ClientConfig) *clientcmdapi.Context {
	raw, err := loaded.RawConfig()
	if err != nil {
		return nil
	}
	return raw.Contexts[cmp.Or(o.context, raw.CurrentContext)]
}

// addNamespace adds the flag --namespace, whose value namespace returns.
func (o *clientOptions) addNamespace(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVarP(&o.flagNamespace, "namespace", "n", "",
		usage+` (default: that of the kubeconfig's context, else "default")`)
}

// addHostNamespace adds the flag --namespace for findHost. of names the object.
func (o *clientOptions) addHostNamespace(cmd *cobra.Command, of string) {
	cmd.Flags().StringVarP(&o.flagNamespace, "namespace", "n", "",
		"namespace of "+of+" (default that of the kubeconfig, or else the only one with such a host)")
}

// namespace returns --namespace, else the namespace of the kubeconfig's context, else
// "default", as kubectl does.
func (o *clientOptions) namespace() string {
	if o.flagNamespace != "" {
		return o.flagNamespace
	}
	return cmp.Or(o.currentNamespace(), v1.NamespaceDefault)
}

// currentNamespace returns the namespace of the kubeconfig's context; "": it has none.
func (o *clientOptions) currentNamespace() string {
	if !o.usesKubeconfig() {
		return ""
	}
	quiet := *o
	quiet.warn = nil // connect warns
	loaded, err := quiet.loadKubeconfig()
	if err != nil {
		return ""
	}
	if current := o.currentContext(loaded); current != nil {
		return current.Namespace
	}
	return ""
}

// checkServer refuses a server that is another one than glowplug: the API of a Kubernetes
// cluster would take Namespaces and ConfigMaps.
func checkServer(ctx context.Context, c *client.Client, address string, byKubeconfig bool) error {
	var list metav1.APIResourceList
	_, err := c.Do(ctx, &client.Request{Path: "/api/v1"}, &list)
	known := func(r metav1.APIResource) bool { return r.Name == kinds.IgnitionConfigs }
	if client.Code(err) != http.StatusNotFound && (err != nil || slices.ContainsFunc(list.APIResources, known)) {
		return remedied(err)
	}
	remedy := "name the server's admin listener with --server, or its --kubeconfig DATA-DIR/admin.kubeconfig"
	if byKubeconfig {
		remedy = "name another context of the kubeconfig with --context, or the server's" +
			" --kubeconfig DATA-DIR/admin.kubeconfig"
	}
	return withHint(fmt.Errorf("%s is no glowplug server: it has no ignitionconfigs", address), remedy)
}
