package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/credentials"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/wording"
)

func newTokenCommand() *cobra.Command {
	return newGroup("token", "Make, list and revoke the tokens of programs and people",
		`Make, list and revoke tokens, with which programs and people use the API. A token is of
a ServiceAccount, whose roles say what it may do. The server stores the hash of a token,
when it was last used and from where.`,
		newTokenCreate(), newTokenList(), newTokenRevoke(), newTokenRotateAdmin())
}

func newTokenList() *cobra.Command {
	var options clientOptions
	var all bool
	var output string
	cmd := &cobra.Command{
		Use: "list", Short: "List tokens, when they expire, and when they were last used",
		Example: `  glowplug token list -n rack-a
  glowplug token list -A -o json`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			request := client.Request{Resource: kinds.Tokens}
			if !all {
				request.Namespace = options.namespace()
			}
			var list v1.TokenList
			if err := options.do(cmd.Context(), request, &list); err != nil {
				return err
			}
			if output != outputText {
				return writeOutput(cmd.OutOrStdout(), output, &list)
			}
			if len(list.Items) == 0 {
				where := ""
				if request.Namespace != "" {
					where = " in the namespace " + request.Namespace
				}
				fmt.Fprintln(cmd.ErrOrStderr(), "there are no tokens"+where)
				return nil
			}
			now := time.Now()
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
			fmt.Fprintln(t, "NAMESPACE\tTOKEN\tACCOUNT\tEXPIRES\tLAST USED\tFROM")
			for i := range list.Items {
				k := &list.Items[i]
				fields := []string{k.Namespace, k.Name, k.Spec.ServiceAccountName, expiryText(k.Spec.ExpirationTime.Time, now),
					lastUse(k, now), k.Status.LastUsedFrom}
				fmt.Fprintln(t, strings.TrimRight(strings.Join(fields, "\t"), "\t"))
			}
			return t.Flush()
		},
	}
	options.addFlags(cmd)
	options.addNamespace(cmd, "namespace of the tokens")
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "the tokens of all namespaces")
	addOutput(cmd, &output)
	return cmd
}

// expiryText returns when a token expires, or that it has.
func expiryText(at, now time.Time) string {
	text := at.UTC().Format(time.RFC3339)
	if !now.Before(at) {
		text += " (expired)"
	}
	return text
}

func lastUse(token *v1.Token, now time.Time) string {
	if token.Status.LastUsedTime == nil {
		return "never"
	}
	return wording.Ago(token.Status.LastUsedTime, now)
}

func newTokenRevoke() *cobra.Command {
	var options clientOptions
	var account string
	cmd := &cobra.Command{
		Use: "revoke [TOKEN…]", Short: "Revoke tokens, at once and on all servers",
		Long: `Revoke tokens by their names in "glowplug token list". From then on the server refuses
them, and ends their open watches and uploads; so do all servers of the store. The
ServiceAccount and its roles stay.`,
		Example: `  glowplug token revoke ci-x2vwq5tk3n -n rack-a
  glowplug token revoke --account ci -n rack-a`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, names []string) error {
			if len(names) > 0 == (account != "") {
				return withHint(usagef("want the names of tokens, or --account"), "glowplug token list has the names")
			}
			namespace := options.namespace()
			if account != "" {
				var list v1.TokenList
				all := client.Request{Resource: kinds.Tokens, Namespace: namespace}
				if err := options.do(cmd.Context(), all, &list); err != nil {
					return err
				}
				for i := range list.Items {
					if list.Items[i].Spec.ServiceAccountName == account {
						names = append(names, list.Items[i].Name)
					}
				}
				if len(names) == 0 {
					return inNamespace(fmt.Errorf("the ServiceAccount %s has no tokens", account), namespace)
				}
			}
			var failed error
			for _, name := range names {
				err := options.do(cmd.Context(), client.Request{
					Method: http.MethodDelete, Resource: kinds.Tokens, Namespace: namespace, Name: name,
				}, nil)
				switch {
				case err == nil:
					fmt.Fprintf(cmd.OutOrStdout(), "token/%s revoked\n", name)
				case account != "" && client.Code(err) == http.StatusNotFound: // revoked by somebody else by now
				case failed == nil:
					failed = inNamespace(fmt.Errorf("token/%s is not revoked: %w", name, err), namespace)
				default:
					fmt.Fprintf(cmd.ErrOrStderr(), "error: token/%s is not revoked: %v\n", name, err)
				}
			}
			return failed
		},
	}
	options.addFlags(cmd)
	options.addNamespace(cmd, "namespace of the tokens")
	cmd.Flags().StringVar(&account, "account", "", "all tokens of this ServiceAccount")
	options.completeArgument(cmd, kinds.Tokens, cobra.ShellCompDirectiveNoFileComp)
	return cmd
}

func newTokenRotateAdmin() *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use: "rotate-admin", Short: "Replace the admin token of a server",
		Long: `Replace the admin token in the data directory of a server, on its machine, as the user of
the server or as root. A running server accepts the new token within ten seconds, and
refuses the former one; so do the other servers of its store. Copies of the former
admin.kubeconfig are of no use from then on.`,
		Example: `  glowplug token rotate-admin --data-dir /var/lib/glowplug
  kubectl -n glowplug exec glowplug-0 -- /glowplug token rotate-admin --data-dir /data/glowplug`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := credentials.RotateAdmin(dataDir)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return withHint(fmt.Errorf("the admin token of %s cannot be replaced: %w", filepath.Clean(dataDir), err),
					"name the data directory of the server with --data-dir; if its admin.kubeconfig was removed, "+
						"a restart of the server makes a new token")
			case errors.Is(err, fs.ErrPermission):
				return withHint(err, "run the command as the user of the server, or as root")
			case err != nil:
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s has a new admin token; a running server accepts it within ten seconds, "+
				"and refuses the former one\n", path)
			return err
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", "./glowplug-data", "the server's data directory")
	return cmd
}
