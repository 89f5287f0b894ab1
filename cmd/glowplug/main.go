// Command glowplug tells booting machines who they are: it stores Ignition and
// Kickstart configs and serves each machine its own.
package main

import (
	"os"

	"glowplug/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
