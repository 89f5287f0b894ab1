package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"glowplug/internal/client"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/disk"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/plan"
)

// Exit codes of plan beside 0, 1 and 2.
const (
	exitDestroys = 3
	exitFails    = 4
)

// exitError ends a command with an exit code of its own when the reason has been printed.
type exitError int

func (e exitError) Error() string { return "exit code " + strconv.Itoa(int(e)) }

// planCommand has the flags of plan.
type planCommand struct {
	clientOptions
	diskOptions
	host, format, output string
}

// diskOptions are the flags that say what is on the disks of a machine.
type diskOptions struct{ disks, blank []string }

func (o *diskOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.disks, "disks", nil, "file with the disks of the machine, - for standard input (repeatable)")
	flags.StringArrayVar(&o.blank, "blank", nil,
		"DEVICE=SIZE of a disk with nothing on it, such as /dev/sda=500GB (repeatable)")
}

func newPlanCommand() *cobra.Command {
	p := &planCommand{}
	cmd := &cobra.Command{
		Use:   "plan [CONFIG|FILE|-]",
		Short: "Show what Ignition will do with the disks of a machine, before it boots",
		Long: `Show what Ignition will do with a config on a machine: for each partition, file system,
path, user and unit whether it is created, reused, resized, wiped, overwritten, or
makes Ignition fail, with the rule and the field of the config that decides. What is
lost, and what fails, comes first.

FILE (.bu, .butane, .yaml, .yml, .ign, .json, or a path with a slash in it) is compiled
here. CONFIG is a config on the server, with all configs that it refers to merged; a
template is rendered for the host of --host. Without CONFIG and FILE it is the config that
the host of --host receives.

--disks is what is known of the disks of the machine, from the machine itself:
    lsblk --bytes --json --output-all    (run as root; udev has to be running)
    sfdisk --json /dev/sda               (the exact partition table of one disk)
or a BareMetalHost with status.hardware as Metal3 writes it. Several files are joined.
--blank is a disk with nothing on it. Without both, the disks are those in
status.hardware of the host of --host. What the facts do not say is "unknown" in the
plan.

The exit code is 0 if Ignition destroys no data, 3 if it would destroy data, 4 if it
would fail (also where it destroys data before), 1 if the plan is incomplete or not
possible, and 2 for wrong usage. docs/reference/plan.md has the rules.`,
		Example: `  glowplug plan storage.bu --blank /dev/sda=500GB
  lsblk --bytes --json --output-all | ssh admin 'glowplug plan worker -n rack-a --disks -'
  glowplug plan --host rack-a/node-1 --disks node-1.json
  glowplug plan storage.bu --disks lsblk.json --disks sda.json -o json`,
		Args: arguments("[CONFIG]"),
		RunE: p.run,
	}
	p.clientOptions.addFlags(cmd)
	p.completeArgument(cmd, kinds.IgnitionConfigs, cobra.ShellCompDirectiveDefault)
	p.addNamespace(cmd, "namespace of CONFIG, and of a host without one")
	flags := cmd.Flags()
	flags.StringVar(&p.host, "host", "", "BareMetalHost: NAME or NAMESPACE/NAME")
	p.completeFlag(cmd, "host", kinds.BareMetalHosts)
	flags.StringVar(&p.format, "format", "", "format of a FILE: butane or ignition (default: by extension)")
	p.diskOptions.addFlags(flags)
	addOutput(cmd, &p.output)
	return cmd
}

func (p *planCommand) run(cmd *cobra.Command, args []string) error {
	facts, err := p.facts(cmd.InOrStdin())
	if err != nil {
		return err
	}
	if len(args) == 0 && p.host == "" {
		return usagef("name a config, a file or, with --host, a host")
	}
	if p.host != "" && !strings.Contains(p.host, "/") {
		p.host = p.namespace() + "/" + p.host
	}
	if p.host != "" && facts == nil {
		if facts, err = p.hardware(cmd.Context()); err != nil {
			return err
		}
	}
	name, config, err := p.source(cmd, args)
	if err != nil {
		return err
	}
	result, err := plan.New(config, facts)
	if err != nil {
		return fmt.Errorf("%s cannot be planned: %w", name, err)
	}
	result.Config, result.Host = name, p.host
	err = writeAs(cmd.OutOrStdout(), p.output, result, func(out io.Writer) error {
		return result.Fprint(out, plan.Style{Color: colored(out), Bars: isTerminal(out), Width: terminalWidth()})
	})
	if err != nil {
		return err
	}
	return exitOf(result)
}

// source returns the config that is planned, and its name.
func (p *planCommand) source(cmd *cobra.Command, args []string) (name string, config []byte, err error) {
	if len(args) == 1 && isFile(args[0]) {
		_, config, err = compileIgnition(cmd, args[0], p.format, "can be planned")
		return args[0], config, err
	}
	return p.fetch(cmd.Context(), args)
}

// exitOf returns the error with the exit code of an outcome.
func exitOf(result *plan.Plan) error {
	switch result.Outcome {
	case plan.Safe:
		return nil
	case plan.Destroys:
		return exitError(exitDestroys)
	case plan.Fails:
		return exitError(exitFails)
	}
	return errSilent
}

// defaultWidth is that of a terminal that does not say its own.
const defaultWidth = 100

func terminalWidth() int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= 60 && n <= 400 {
		return n
	}
	return defaultWidth
}

// facts reads the disks of --disks and --blank; nil: there are none.
func (o *diskOptions) facts(stdin io.Reader) (*disk.Facts, error) {
	var all []*disk.Facts
	for _, name := range o.disks {
		text, err := readInput(name, stdin, disk.MaxDocument)
		if err != nil {
			return nil, err
		}
		if document, err := yaml.YAMLToJSON(text); err == nil { // kubectl get -o yaml
			text = document
		}
		facts, err := disk.Read(text)
		if err != nil {
			return nil, fmt.Errorf("--disks %s: %w", name, err)
		}
		all = append(all, facts)
	}
	blank := &disk.Facts{Source: disk.SourceBlank}
	for _, text := range o.blank {
		device, size, _ := strings.Cut(text, "=")
		bytes, err := disk.ParseSize(size)
		if err != nil || !strings.HasPrefix(device, "/") {
			return nil, usagef("--blank: %q is not DEVICE=SIZE, such as /dev/sda=500GB", text)
		}
		blank.Disks = append(blank.Disks, disk.Blank(device, bytes))
	}
	if len(blank.Disks) > 0 {
		all = append(all, blank)
	}
	if len(all) == 0 {
		return nil, nil
	}
	facts, err := disk.Join(all...)
	if err != nil {
		return nil, fmt.Errorf("the disks: %w", err)
	}
	return facts, nil
}

// fetch returns a config of the server with all configs that it refers to merged: the named config,
// or the config that the host receives.
func (p *planCommand) fetch(ctx context.Context, args []string) (name string, config []byte, err error) {
	namespace := p.namespace()
	if len(args) == 1 {
		name = args[0]
	} else if namespace, name, err = p.received(ctx, p.host); err != nil {
		return "", nil, err
	}
	query := url.Values{}
	if p.host != "" {
		query.Set("host", p.host)
	}
	err = p.do(ctx, client.Request{
		Resource: kinds.IgnitionConfigs, Namespace: namespace, Name: name, Subresource: "rendered", Query: query,
	}, &config)
	if err != nil {
		return "", nil, inNamespace(err, namespace)
	}
	return namespace + "/" + name, config, nil
}

// hardware returns the disks in status.hardware of the host; nil: they are unknown.
func (p *planCommand) hardware(ctx context.Context) (*disk.Facts, error) {
	host, err := p.readHost(ctx, p.host)
	if err != nil || host.Status.Hardware == nil {
		return nil, err
	}
	facts, err := disk.OfHardware(host.Status.Hardware)
	if err != nil {
		return nil, fmt.Errorf("status.hardware of the BareMetalHost %s: %w", p.host, err)
	}
	return facts, nil
}

// received returns the config that a host receives.
func (p *planCommand) received(ctx context.Context, host string) (namespace, name string, err error) {
	answer, err := p.explained(ctx, url.Values{"host": {host}, "endpoint": {decide.Ignition}})
	if err != nil {
		return "", "", err
	}
	if answer.Winner == nil {
		err := errors.New("the host " + host + " receives no Ignition config, and only such a config can be planned")
		return "", "", withHint(err, "glowplug explain "+host+" shows why; a kickstart cannot be planned")
	}
	namespace, name, _ = strings.Cut(answer.Winner.Config, "/")
	return namespace, name, nil
}
