// Command ociimage writes an archive of an OCI image with glowplug alone, for several platforms:
//
//	ociimage VERSION COMMIT OUT ARCH=PROGRAM…
//
// It has the layout of OCI in a tar file, which podman, buildah, skopeo, containerd and docker
// read. deploy/container/Containerfile describes the same image for a program that was built by
// make. The time of everything in it is SOURCE_DATE_EPOCH, so that two runs write the same bytes.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: ociimage VERSION COMMIT OUT ARCH=PROGRAM…")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run writes the archive of programs, each as ARCH=PROGRAM.
func run(version, commit, out string, programs []string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	a := archive{version: version, commit: commit, date: time.Unix(seconds, 0).UTC(), blobs: map[string][]byte{}}
	for _, program := range programs {
		arch, path, ok := strings.Cut(program, "=")
		if !ok {
			return fmt.Errorf("%q is not ARCH=PROGRAM", program)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := a.add(arch, content); err != nil {
			return err
		}
	}
	content, err := a.tar()
	if err != nil {
		return err
	}
	return os.WriteFile(out, content, 0o644)
}
