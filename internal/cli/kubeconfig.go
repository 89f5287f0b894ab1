package cli

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"glowplug/internal/credentials"
)

func newKubeconfigCommand() *cobra.Command {
	var dataDir, server, ca string
	cmd := &cobra.Command{
		Use: "kubeconfig", Short: "Print the kubeconfig of the administrator",
		Long: `Print the kubeconfig of the administrator, which the first start of the server writes
into its data directory. It names the server by an address of the server's own machine:
--server replaces that for clients elsewhere. The certificate of the server has to
contain that name or address: see serve's --tls-san.

The output holds the admin token. Keep it in a file that nobody else may read.`,
		Example: `  glowplug kubeconfig --data-dir /var/lib/glowplug --server https://boot.example:8443
  kubectl -n glowplug exec glowplug-0 -- /glowplug kubeconfig --server https://glowplug.glowplug.svc:8443`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := url.Parse(server)
			if server != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
				return usagef("--server: %q is not a URL such as https://boot.example:8443", server)
			}
			config, err := readKubeconfig(dataDir)
			if err != nil {
				return err
			}
			for _, cluster := range config.Clusters {
				cluster.Server = cmp.Or(server, cluster.Server)
				if !cmd.Flags().Changed("certificate-authority") {
					continue
				}
				if cluster.CertificateAuthorityData = nil; ca != "" {
					if cluster.CertificateAuthorityData, err = os.ReadFile(ca); err != nil {
						return fileError(err)
					}
					if !x509.NewCertPool().AppendCertsFromPEM(cluster.CertificateAuthorityData) {
						return fmt.Errorf("--certificate-authority: %s holds no PEM certificate", ca)
					}
				}
			}
			out, err := clientcmd.Write(*config)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(out)
			return err
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", "./glowplug-data", "the server's data directory")
	cmd.Flags().StringVar(&server, "server", "", "URL of the server for the client (default: that of the file)")
	cmd.Flags().StringVar(&ca, "certificate-authority", "", "PEM file of the CAs of the server's certificate, for a server "+
		"with --tls-cert-file; '' for those of the client's system (default: the server's own CA)")
	return cmd
}

// readKubeconfig reads the kubeconfig of a data directory.
func readKubeconfig(dataDir string) (*clientcmdapi.Config, error) {
	path := filepath.Join(dataDir, credentials.Kubeconfig)
	config, err := clientcmd.LoadFromFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, withHint(fmt.Errorf("there is no %s", path), "name the data directory of the server with --data-dir; "+
			"the first start of the server writes the file, and so does a restart if the file was removed")
	case errors.Is(err, fs.ErrPermission):
		return nil, withHint(fmt.Errorf("%s cannot be read", path), "run the command as the user of the server, or as root")
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return config, nil
}
