package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"glowplug/internal/client"
)

const (
	// completionTimeout bounds how long a shell waits for the names of a completion.
	completionTimeout = 3 * time.Second
	// maxCompletions bounds the names that a shell is offered.
	maxCompletions = 500
)

// completeChoices lets the shell complete a flag that has a list of values.
func completeChoices(cmd *cobra.Command, flag string, choices ...string) {
	offer := cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(flag, offer); err != nil {
		panic(err) // the flag does not exist
	}
}

// offers reads a list of the server for a completion, which has no errors and no warnings.
func (o *clientOptions) offers(ctx context.Context, r client.Request, list any) bool {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	o.warn = nil // a warning would be shown amid the typed line
	return o.do(ctx, r, list) == nil
}

// completeArgument lets the shell complete the first argument by the names of the server's
// objects, with the directive; further arguments are files.
func (o *clientOptions) completeArgument(cmd *cobra.Command, resource string, directive cobra.ShellCompDirective) {
	names := o.completeNames(resource, directive)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return names(cmd, args, typed)
	}
}

// completeFlag lets the shell complete a flag by the names of the server's objects.
func (o *clientOptions) completeFlag(cmd *cobra.Command, flag, resource string) {
	names := o.completeNames(resource, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(flag, names); err != nil {
		panic(err) // the flag does not exist
	}
}

// completeNames returns a completion by the names of the server's objects. There are none
// where the server does not answer.
func (o *clientOptions) completeNames(resource string, directive cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		if flagsFromEnvironment(cmd.Flags()) != nil {
			return nil, directive
		}
		var list metav1.PartialObjectMetadataList
		request := client.Request{Resource: resource, Namespace: o.namespace(), Query: map[string][]string{
			"resourceVersion": {"0"},
		}}
		if !o.offers(cmd.Context(), request, &list) {
			return nil, directive
		}
		var names []string
		for i := range list.Items {
			if name := list.Items[i].Name; strings.HasPrefix(name, typed) && len(names) < maxCompletions {
				names = append(names, name)
			}
		}
		return names, directive
	}
}
