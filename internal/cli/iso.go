package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"glowplug/internal/domain/iso"
)

func newISOCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "iso",
		Short: "Upload ISO images, wait for them, look into them and set their kernel arguments",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", "iso "+args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newISOUploadCommand(), newISOListCommand(), newISOWaitCommand(), newISOInspectCommand(),
		newISOCustomizeCommand())
	return cmd
}

func newISOInspectCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Say what an ISO image is, how it boots and where kernel arguments can be set",
		Example: `  glowplug iso inspect fedora-coreos.iso
  glowplug iso inspect -o json fedora-coreos.iso`,
		Args: exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return usagef("--output: %q is neither text nor json", output)
			}
			file, img, err := openISO(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			found, err := inspectISO(img)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if output == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(found)
			}
			return found.writeText(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func newISOCustomizeCommand() *cobra.Command {
	var (
		out     string
		kargs   []string
		baseURL string
		files   string
	)
	cmd := &cobra.Command{
		Use:   "customize FILE -o OUT",
		Short: "Write a copy of an ISO image with kernel arguments set",
		Long: `Write a copy of an ISO image with kernel arguments set in every boot
configuration, for BIOS and UEFI alike: what the server does in memory, for those
who burn the image or let another target serve it. An argument replaces those of
the same name that are there.

Without --karg the distro's default is set: CoreOS fetches its Ignition config,
and Fedora and its relatives their kickstart, from the server at --http-url; both
find the image again over iSCSI, or over HTTP below --files-url.

OUT appears when it is complete; after an error there is none.`,
		Example: `  glowplug iso customize fcos.iso -o node.iso --http-url http://192.168.10.1:8082
  glowplug iso customize fcos.iso -o node.iso --karg ignition.config.url=http://192.168.10.1/node.ign --karg console=ttyS0`,
		Args: exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usagef("missing flag -o OUT")
			}
			file, img, err := openISO(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			if err := checkOutput(file, out); err != nil {
				return err
			}
			overlay, err := img.Customize(iso.Options{Args: kargs, BaseURL: baseURL, FilesURL: files})
			if err != nil {
				return customizeError(args[0], err)
			}
			if len(overlay.Args()) == 0 {
				return withHint(fmt.Errorf("%s: its distro (%s) has no default kernel arguments", args[0], img.Distro()),
					"name them with --karg")
			}
			bar := newProgress(cmd.ErrOrStderr(), out, overlay.Size())
			err = writeISO(cmd.Context(), file, overlay, out, bar.add)
			bar.done()
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			fmt.Fprintf(w, "kernel arguments: %s\n", strings.Join(overlay.Args(), " "))
			for _, name := range overlay.Patched() {
				fmt.Fprintf(w, "patched: %s\n", name)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the file to write")
	cmd.Flags().StringArrayVar(&kargs, "karg", nil,
		"kernel argument to set: a flag or key=value; ${glowplug} stands for --http-url (repeatable; default by distro)")
	cmd.Flags().StringVar(&baseURL, "http-url", "", "URL of the server as machines reach it")
	cmd.Flags().StringVar(&files, "files-url", "",
		"URL below which the files of the image are served; with none they are found over iSCSI")
	return cmd
}

// openISO opens an image file and looks it over.
func openISO(name string) (*os.File, *iso.Image, error) {
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, withHint(fmt.Errorf("there is no file %s", name), "check the path")
	}
	if err != nil {
		return nil, nil, fileError(err)
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("it is a folder")
	}
	if err != nil {
		file.Close()
		return nil, nil, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	img, err := iso.Open(file, info.Size())
	if err != nil {
		file.Close()
		err = fmt.Errorf("%s: %w", name, err)
		switch {
		case errors.Is(err, iso.ErrNotISO):
			err = withHint(err, "a disk image (.raw, .img, .qcow2) or a compressed file cannot be used: it has to be the "+
				".iso itself")
		case errors.Is(err, iso.ErrTruncated):
			err = withHint(err, "download it again and compare its SHA-256")
		}
		return nil, nil, err
	}
	return file, img, nil
}

func customizeError(name string, err error) error {
	err = fmt.Errorf("%s: %w", name, err)
	if errors.Is(err, iso.ErrNoBaseURL) {
		return withHint(err, "--http-url names the server as machines reach it")
	}
	return err
}

// checkOutput refuses what a rename would destroy.
func checkOutput(in *os.File, out string) error {
	there, err := os.Stat(out)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !there.Mode().IsRegular() {
		return withHint(usagef("--output: %s is no regular file", out), "write to a file, and copy that to a device")
	}
	if here, err := in.Stat(); err == nil && os.SameFile(here, there) {
		return usagef("--output: %s is the image itself", out)
	}
	return nil
}

// copyChunk is how much is copied between looks at the context.
const copyChunk = 8 << 20

// writeISO writes the patched image beside out and renames it when all of it is
// on the disk. written is told of the bytes as they are.
func writeISO(ctx context.Context, in *os.File, overlay *iso.Overlay, out string, written func(int64)) (err error) {
	partial := fmt.Sprintf("%s.%d.partial", out, os.Getpid())
	to, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			to.Close()
			os.Remove(partial)
		}
	}()
	for _, s := range overlay.AppendSegments(nil, 0, overlay.Size()) {
		if s.Data != nil {
			if _, err := to.Write(s.Data); err != nil {
				return err
			}
			written(s.Len)
			continue
		}
		if _, err := in.Seek(s.Off, io.SeekStart); err != nil {
			return err
		}
		for rest := s.Len; rest > 0; {
			if err := ctx.Err(); err != nil {
				return errors.New("interrupted")
			}
			// From file to file, so that the kernel copies, or shares the blocks.
			n, err := io.CopyN(to, in, min(rest, copyChunk))
			if errors.Is(err, io.EOF) {
				return fmt.Errorf("%s has become shorter while it was read", in.Name())
			}
			if err != nil {
				return err
			}
			rest -= n
			written(n)
		}
	}
	if err := to.Sync(); err != nil {
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	return os.Rename(partial, out)
}
