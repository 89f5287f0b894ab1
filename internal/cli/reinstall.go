package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/status"
)

// reinstallCommand has the flags of reinstall.
type reinstallCommand struct {
	statusCommand
	yes bool
}

func newReinstallCommand() *cobra.Command {
	r := &reinstallCommand{}
	cmd := &cobra.Command{
		Use:   "reinstall [NAMESPACE/]HOST",
		Short: "Have a host boot its image once more, which installs it again",
		Long: `Arm a host: at its next boot the machine gets its image and its config again, and not its
disk. It is not restarted. The command says what the machine will boot and receive, and which
data on its disks Ignition will destroy as far as the disks are known (status.hardware), and
asks. It writes the annotation glowplug.dev/rearm.`,
		Example: `  glowplug reinstall node-1 -n rack-a
  glowplug reinstall rack-a/node-1 --yes`,
		Args: arguments("HOST"),
		RunE: r.run,
	}
	r.addFlags(cmd)
	r.completeArgument(cmd, kinds.BareMetalHosts, cobra.ShellCompDirectiveNoFileComp)
	r.addHostNamespace(cmd, "HOST")
	cmd.Flags().BoolVarP(&r.yes, "yes", "y", false, "do not ask")
	return cmd
}

func (r *reinstallCommand) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	host, err := r.readHost(ctx, hostName(args[0]))
	if err != nil {
		return err
	}
	name := host.Namespace + "/" + host.Name
	if host.Spec.Image == v1.ImageLocalBoot {
		return fmt.Errorf("host %s boots its disk (spec.image is %s): set spec.image to an image", name,
			v1.ImageLocalBoot)
	}
	if host.Spec.BootMode == v1.BootForever {
		return fmt.Errorf("host %s boots its image at every boot (bootMode forever): nothing has to be armed", name)
	}
	if !r.yes {
		found, _, err := status.Gets(ctx, r.do, host)
		if err != nil {
			return err
		}
		fmt.Fprint(cmd.ErrOrStderr(), found.Text(time.Now()))
		what := "its script"
		if host.Spec.Image != "" {
			what = "image " + host.Spec.Image
		}
		consequence := "At its next boot " + name + " boots " + what + " again"
		if device := host.Spec.RootDeviceHints.Device(); device != "" {
			consequence += ", and installs it on " + device
		}
		consequence += ". That may erase its disks."
		if err := confirmed(cmd, consequence); err != nil {
			return err
		}
	}
	request := client.Request{
		Method: http.MethodPatch, Resource: kinds.BareMetalHosts, Namespace: host.Namespace, Name: host.Name,
		Header: map[string]string{"Content-Type": "application/merge-patch+json"},
		Body: map[string]any{"metadata": map[string]any{
			"annotations": map[string]string{v1.AnnotationRearm: time.Now().UTC().Format(time.RFC3339Nano)},
		}},
	}
	if err := r.do(ctx, request, host); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "baremetalhost %s armed: restart the machine\n", name)
	return nil
}

var errNotConfirmed = errors.New("not confirmed: nothing was changed")

// confirmed asks a question on the terminal, and returns an error unless the answer is yes.
func confirmed(cmd *cobra.Command, consequence string) error {
	in := cmd.InOrStdin()
	if file, ok := in.(*os.File); ok && !term.IsTerminal(int(file.Fd())) {
		return usagef("this asks for confirmation, and there is no terminal: confirm with --yes")
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "\n%s Continue? [y/N] ", consequence)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errNotConfirmed
}
