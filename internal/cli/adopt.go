package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/wording"
)

// adoption has the flags of adopt.
type adoption struct {
	wording.Adoption
	dryRun, output string
}

func newAdoptCommand() *cobra.Command {
	var options clientOptions
	var a adoption
	cmd := &cobra.Command{
		Use:   "adopt um/MACHINE",
		Short: "Make a BareMetalHost of a machine that asked the server and is unknown",
		Long: `Make a BareMetalHost of an UnknownMachine. The host has the hardware address of the
machine as bootMACAddress and, where it is known, its systemUUID, unless other machines
report or have the same one. The UUID is what the machine says of itself, and so is the
hardware address if "kubectl describe um/MACHINE" shows no neighborMAC, which is from the
server's neighbour table. Unless the server runs with --identity-claims=trust, such a
machine is recognised as the host only from an address of the host, which --with-address
sets, or from one in spec.bootSources. A machine whose hardware address is unknown needs
--with-address. The server removes the UnknownMachine.`,
		Example: `  kubectl get um
  glowplug adopt um/52-54-00-12-34-56 -n rack-a --name node-7
  glowplug adopt 52-54-00-12-34-56 --name node-7 --image coreos --label role=builder --dry-run=client -o yaml`,
		Args: arguments("um/MACHINE"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return completeUnknown(cmd, &options, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Namespace = options.namespace()
			return a.run(cmd, &options, args[0])
		},
	}
	options.addFlags(cmd)
	options.addNamespace(cmd, "namespace of the host")
	flags := cmd.Flags()
	flags.StringVar(&a.Name, "name", "", "name of the host (default: that of the UnknownMachine)")
	flags.StringVar(&a.Image, "image", "", "image of the host, NAME or NAMESPACE/NAME (default: none; it boots the script "+
		"of its namespace, or its disk)")
	flags.StringToStringVar(&a.Labels, "label", nil, "label of the host, key=value (repeatable)")
	flags.BoolVar(&a.WithAddress, "with-address", false, "the host has the address from which the machine last asked")
	flags.BoolVar(&a.WithAddress, "ip", false, "")
	_ = flags.MarkHidden("ip") // the former name: of apply and compile, --ip is an address
	flags.StringVar(&a.dryRun, "dry-run", dryRunNone,
		"none; client, also without a value: send nothing; server: let the server check and write nothing")
	flags.Lookup("dry-run").NoOptDefVal = dryRunClient
	flags.StringVarP(&a.output, "output", "o", "", "print the host as yaml or json")
	addChoices(cmd, "dry-run", dryRunNone, dryRunClient, dryRunServer)
	addChoices(cmd, "output", outputYAML, outputJSON)
	return cmd
}

// run reads the machine and creates the host.
func (a *adoption) run(cmd *cobra.Command, options *clientOptions, machine string) error {
	machine, err := unknownName(machine)
	if err != nil {
		return err
	}
	var found v1.UnknownMachine
	err = options.do(cmd.Context(), client.Request{Resource: kinds.UnknownMachines, Name: machine}, &found)
	if client.Code(err) == http.StatusNotFound {
		return wording.NoMachine(machine)
	}
	if err != nil {
		return err
	}
	note, err := a.noUUID(cmd.Context(), options, &found)
	if err != nil {
		return err
	}
	if note != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", note)
		found.Status.SystemUUID = ""
	}
	host, err := a.Host(&found)
	if err != nil {
		return err
	}
	done := map[string]string{
		dryRunNone: "created", dryRunClient: "created (dry run)", dryRunServer: "created (server dry run)",
	}[a.dryRun]
	if a.dryRun != dryRunClient {
		request := client.Request{Resource: kinds.BareMetalHosts, Namespace: a.Namespace, Body: host,
			Query: url.Values{"fieldManager": {"glowplug-adopt"}, "fieldValidation": {"Strict"}}}
		if a.dryRun == dryRunServer {
			request.Query.Set("dryRun", "All")
		}
		created, err := options.create(cmd.Context(), cmd.ErrOrStderr(), request, host)
		if err != nil {
			return err
		}
		if !created {
			return wording.HostExists(host)
		}
	}
	if a.output != "" {
		return writeObject(cmd.OutOrStdout(), a.output, host)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "baremetalhost/%s %s\n", host.Name, done)
	return err
}

// unknownName returns the name in um/NAME, unknownmachine/NAME, unknownmachines/NAME or NAME,
// where a hardware address may have colons.
func unknownName(arg string) (string, error) {
	kind, name, ok := strings.Cut(arg, "/")
	switch {
	case !ok:
		name = arg
	case kinds.Named(kind) != kinds.Of(kinds.UnknownMachines):
		return "", usagef("%q is no UnknownMachine: want um/NAME, as kubectl get um lists them", clipped(arg))
	}
	if name == "" {
		return "", usagef("the name of the UnknownMachine is empty: want um/NAME, as kubectl get um lists them")
	}
	return strings.ToLower(strings.ReplaceAll(name, ":", "-")), nil
}

// writeObject prints an object as it is written in a manifest.
func writeObject(w io.Writer, format string, host *v1.BareMetalHost) error {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(host)
	if err != nil {
		return err
	}
	if host.UID == "" { // it was not sent
		delete(object, "status")
		delete(object["metadata"].(map[string]any), "creationTimestamp")
	}
	return writeOutput(w, format, object)
}

// completeUnknown completes the names of unknown machines.
func completeUnknown(cmd *cobra.Command, options *clientOptions, args []string, typed string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || flagsFromEnvironment(cmd.Flags()) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list v1.UnknownMachineList
	if !options.offers(cmd.Context(), client.Request{Resource: kinds.UnknownMachines}, &list) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	prefix := ""
	if strings.HasPrefix(typed, "um/") {
		prefix = "um/"
	}
	var names []string
	for i := range list.Items {
		machine := &list.Items[i]
		if name := prefix + machine.Name; strings.HasPrefix(name, typed) {
			names = append(names, name+"\t"+machine.Status.Product)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
