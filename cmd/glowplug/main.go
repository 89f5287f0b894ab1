// Command glowplug tells booting machines who they are: it stores Ignition and
// Kickstart configs and serves each machine its own.
package main

import (
	"os"

	_ "golang.org/x/crypto/x509roots/fallback" // for a machine without CA certificates, such as a container FROM scratch

	"glowplug/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
