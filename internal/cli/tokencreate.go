package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
)

// outputKubeconfig is a value of --output of token create.
const outputKubeconfig = "kubeconfig"

// leastTokenLife is the least that the server accepts.
const leastTokenLife = 10 * time.Minute

// rbacRoot is the path of the API group of roles.
var rbacRoot = "/apis/" + rbacv1.SchemeGroupVersion.String()

// byTokenCreate names the field manager of the objects that token create makes.
var byTokenCreate = url.Values{"fieldManager": {"glowplug-token"}}

// tokenCreation makes a token, with its ServiceAccount and the binding of its role.
type tokenCreation struct {
	clientOptions
	account, role string
	inAll         bool
	life          time.Duration
	output        string
	notes         io.Writer
}

func newTokenCreate() *cobra.Command {
	var t tokenCreation
	cmd := &cobra.Command{
		Use:   "create NAME --role ROLE",
		Short: "Make a token of a ServiceAccount, which is created if it does not exist",
		Long: `Make a token of the ServiceAccount NAME, and print it. The account is created if it does
not exist. With --role it gets a role: a Role of the namespace or, if there is none with
that name, a ClusterRole, such as view, edit or admin. The role is for the namespace of
the account, or with --all-namespaces for all of them. Without --role the account keeps
the roles that it has.

The token is shown only now. Store it where nobody else may read it.`,
		Example: `  glowplug token create ci --role edit -n rack-a --ttl 720h
  glowplug token create grafana --role view --all-namespaces -o kubeconfig >grafana.kubeconfig`,
		Args: arguments("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.inAll && t.role == "" {
				return usagef("--all-namespaces is for --role, which is missing")
			}
			if t.life < leastTokenLife {
				return usagef("--ttl: %s is less than %s", t.life, leastTokenLife)
			}
			if t.output == outputKubeconfig && !t.usesKubeconfig() {
				return withHint(usagef("-o kubeconfig: the admin listener of --server accepts no token"),
					"name a listener that does: --kubeconfig DATA-DIR/admin.kubeconfig")
			}
			t.account, t.notes = args[0], cmd.ErrOrStderr()
			return t.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	t.addFlags(cmd)
	t.addNamespace(cmd, "namespace of the account, and of its role")
	flags := cmd.Flags()
	flags.StringVar(&t.role, "role", "", "role that the account gets, as view, edit or admin (default: none)")
	flags.BoolVarP(&t.inAll, "all-namespaces", "A", false, "the role is for all namespaces")
	flags.DurationVar(&t.life, "ttl", 30*24*time.Hour, "how long the token is valid: 24h, or 720h for 30 days")
	flags.StringVarP(&t.output, "output", "o", outputText,
		"text (the token alone), kubeconfig, or the TokenRequest as json or yaml")
	addChoices(cmd, "output", outputText, outputKubeconfig, outputJSON, outputYAML)
	return cmd
}

func (t *tokenCreation) run(ctx context.Context, out io.Writer) error {
	namespace := t.namespace()
	var role rbacv1.RoleRef
	if t.role != "" {
		var err error
		if role, err = t.roleRef(ctx, namespace); err != nil {
			return err
		}
	}
	created, err := t.create(ctx, t.notes, client.Request{
		Resource: kinds.ServiceAccounts, Namespace: namespace, Query: byTokenCreate,
		Body: &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: t.account}},
	}, nil)
	if err != nil {
		return err
	}
	if created {
		fmt.Fprintf(t.notes, "serviceaccount/%s created in the namespace %s\n", t.account, namespace)
	} else if err := t.noteAccount(ctx, namespace); err != nil {
		return err
	}
	if t.role != "" {
		if err := t.bind(ctx, namespace, role); err != nil {
			return err
		}
	}
	request := &authenticationv1.TokenRequest{}
	request.Spec.ExpirationSeconds = new(int64(t.life / time.Second))
	err = t.do(ctx, client.Request{
		Method: http.MethodPost, Resource: kinds.ServiceAccounts, Namespace: namespace, Name: t.account, Subresource: "token",
		Body: request,
	}, request)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.notes, "the token expires at %s, and is shown only now\n",
		request.Status.ExpirationTimestamp.UTC().Format(time.RFC3339))
	switch t.output {
	case outputText:
		_, err = fmt.Fprintln(out, request.Status.Token)
	case outputKubeconfig:
		err = t.writeKubeconfig(out, namespace, request.Status.Token)
	default:
		err = writeOutput(out, t.output, request)
	}
	return err
}

// noteAccount says that the account existed before: tokens that others have of it stay valid.
func (t *tokenCreation) noteAccount(ctx context.Context, namespace string) error {
	var account v1.ServiceAccount
	request := client.Request{Resource: kinds.ServiceAccounts, Namespace: namespace, Name: t.account}
	if err := t.do(ctx, request, &account); err != nil {
		return err
	}
	fmt.Fprintf(t.notes, "serviceaccount/%s exists in the namespace %s since %s; its other tokens stay valid\n", t.account,
		namespace, account.CreationTimestamp.UTC().Format(time.RFC3339))
	return nil
}

// bind gives the account its role, unless it has it already.
func (t *tokenCreation) bind(ctx context.Context, namespace string, ref rbacv1.RoleRef) error {
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: t.account}}
	name, in := t.account+"-"+t.role, " in the namespace "+namespace
	stored := &rbacv1.RoleBinding{}
	request := client.Request{
		Root: rbacRoot, Resource: kinds.RoleBindings, Namespace: namespace, Query: byTokenCreate,
		Body: &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: ref, Subjects: subjects,
		},
	}
	if t.inAll {
		name, in = namespace+"-"+name, " in all namespaces"
		request.Resource, request.Namespace = kinds.ClusterRoleBindings, ""
		request.Body = &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref, Subjects: subjects,
		}
	}
	created, err := t.create(ctx, t.notes, request, nil)
	if err != nil {
		return err
	}
	if created {
		fmt.Fprintf(t.notes, "%s/%s created: the account has the %s %s%s\n", strings.TrimSuffix(request.Resource, "s"), name,
			ref.Kind, ref.Name, in)
		return nil
	}
	request.Name, request.Query, request.Body = name, nil, nil
	if err := t.do(ctx, request, stored); err != nil { // a ClusterRoleBinding has the same fields
		return err
	}
	if stored.RoleRef != ref || !apiequality.Semantic.DeepEqual(stored.Subjects, subjects) {
		return withHint(fmt.Errorf("the %s %s exists already, and is for another role or other subjects",
			strings.TrimSuffix(request.Resource, "s"), name),
			"give the account its role with kubectl create rolebinding, and run the command without --role")
	}
	return nil
}

// roleRef returns the Role of the namespace with the name or, if there is none, the ClusterRole.
func (t *tokenCreation) roleRef(ctx context.Context, namespace string) (rbacv1.RoleRef, error) {
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: t.role}
	if !t.inAll {
		err := t.do(ctx, client.Request{Root: rbacRoot, Resource: kinds.Roles, Namespace: namespace, Name: t.role}, nil)
		switch client.Code(err) {
		case http.StatusNotFound, http.StatusForbidden: // the binding is refused if there is no such role
		default:
			ref.Kind = "Role"
			return ref, err
		}
	}
	err := t.do(ctx, client.Request{Root: rbacRoot, Resource: kinds.ClusterRoles, Name: t.role}, nil)
	switch client.Code(err) {
	case http.StatusNotFound:
		return ref, withHint(fmt.Errorf("there is no Role %s in the namespace %s, and no ClusterRole of that name", t.role,
			namespace), "kubectl get clusterroles lists the built-in roles, such as view, edit and admin")
	case http.StatusForbidden:
		return ref, nil
	}
	return ref, err
}

// writeKubeconfig prints a kubeconfig with the token, for the server that made it.
func (t *tokenCreation) writeKubeconfig(out io.Writer, namespace, token string) error {
	config, err := t.config()
	if err != nil {
		return err
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return err
	}
	user := namespace + "-" + t.account
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"glowplug": {
			Server: config.Host, CertificateAuthorityData: config.CAData, TLSServerName: config.ServerName,
			InsecureSkipTLSVerify: config.Insecure,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{user: {Token: token}},
		Contexts: map[string]*clientcmdapi.Context{
			"glowplug": {Cluster: "glowplug", AuthInfo: user, Namespace: namespace},
		},
		CurrentContext: "glowplug",
	})
	if err == nil {
		_, err = out.Write(content)
	}
	return err
}
