package cli

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"glowplug/internal/loader"
	"glowplug/internal/serve/pxe"
)

func newDoctorCommand() *cobra.Command {
	return newGroup("doctor", "Look for what keeps machines from booting", "", newDoctorPXECommand())
}

// doctorPXE has the flags of doctor pxe.
type doctorPXE struct {
	name, loaders, output string
}

func newDoctorPXECommand() *cobra.Command {
	d := &doctorPXE{}
	cmd := &cobra.Command{
		Use:   "pxe",
		Short: "Say what each kind of machine meets on a network that serve --pxe-interface is for",
		Long: `Look at the network of an interface of this machine: its address, the ports that the server
needs, the firewall, the DHCP servers that answer, IPv6 routers, and the boot loaders of this
machine. Then say what each kind of firmware will meet. It takes four to eight seconds and needs
root; a DHCP server is asked for an address, which is not taken. If the server runs, its own ports
are in use.`,
		Example: `  sudo glowplug doctor pxe --pxe-interface eth1`,
		Args:    cobra.NoArgs,
		RunE:    d.run,
	}
	cmd.Flags().StringVar(&d.name, "pxe-interface", "", "network interface towards the machines")
	cmd.Flags().StringVar(&d.loaders, "boot-loaders", "", "folder of boot loaders (default: those of the packages)")
	addOutput(cmd, &d.output)
	_ = cmd.MarkFlagRequired("pxe-interface")
	return cmd
}

func (d *doctorPXE) run(cmd *cobra.Command, _ []string) error {
	set, err := loader.In(d.loaders)
	if err != nil {
		return err
	}
	own, err := pxe.NetworkOf(d.name)
	if err != nil {
		return fmt.Errorf("--pxe-interface: %w", err)
	}
	network, err := pxe.Probe(cmd.Context(), d.name, own.Addr())
	if err != nil {
		return err
	}
	network.Firewall = firewall(cmd.Context())
	return writeAs(cmd.OutOrStdout(), d.output, network, func(out io.Writer) error {
		return printNetwork(out, network, set)
	})
}

// printNetwork writes what was found, and what each kind of machine meets.
func printNetwork(to io.Writer, n *pxe.Network, set *loader.Set) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(table, "%s:\t%s\n", name, value) }
	row("interface", n.Interface+", "+n.Address.String())
	row("ports", portsText(n))
	row("firewall", n.Firewall)
	if len(n.Servers) == 0 {
		row("DHCP", "no server answers, so machines get no address: start one, or serve with --dhcp-range (ISC dhcpd on this "+
			"machine itself is not seen)")
	}
	for _, server := range n.Servers {
		row("DHCP", serverText(&server, n.Address))
	}
	if n.Router {
		row("IPv6", "a router advertises itself")
	} else {
		row("IPv6", "no router advertises itself: iPXE waits 16 s each time it starts, unless the server runs with --pxe-ra")
	}
	for _, arch := range loader.Arches {
		meets := "no answer: " + loader.Package(arch)
		if l := set.For(arch); l != nil {
			meets = l.Name + ", then its script"
		}
		row(string(arch), meets)
	}
	row("Secure Boot", secureText(n, set))
	return table.Flush()
}

func portsText(n *pxe.Network) string {
	if len(n.Ports) == 0 {
		return "67, 69 and 4011 are free"
	}
	var parts []string
	for port, reason := range n.Ports {
		parts = append(parts, fmt.Sprintf("%d: %s", port, reason))
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ") + " (by the server itself, if it runs)"
}

func serverText(server *pxe.DHCPServer, own netip.Addr) string {
	text := server.Address.String() + " offers addresses"
	switch {
	case server.Next == own:
		text += ", and names this server as the next one"
	case server.Next.IsValid() && !server.Next.IsUnspecified():
		text += ", and names " + server.Next.String() + " as the next server"
	}
	if server.File != "" {
		text += ", with the boot file " + server.File
	}
	return text
}

// secureText says how firmware with Secure Boot boots.
func secureText(n *pxe.Network, set *loader.Set) string {
	if l := set.For(loader.X64); l != nil && strings.Contains(l.Name, "shim") {
		return l.Name + ", then its script"
	}
	if set.Named("shimx64.efi.signed") == nil || set.Named("grubnetx64.efi.signed") == nil {
		return "no signed loader: Debian's packages shim-signed and grub-efi-amd64-signed have shim and GRUB"
	}
	if len(n.Servers) == 0 {
		return "shim and GRUB, if the DHCP server names " + n.Address.String() + " as the next server, or with --dhcp-range"
	}
	isNext := func(server pxe.DHCPServer) bool { return server.Next == n.Address }
	if !slices.ContainsFunc(n.Servers, isNext) {
		return "GRUB asks the next-server of the DHCP server, which is not " + n.Address.String() + ": set it there"
	}
	return "shim and GRUB, for hosts with spec.pxe.loader: shimx64.efi.signed"
}
