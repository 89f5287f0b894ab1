package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"glowplug/internal/domain/iso"
	"glowplug/internal/image/download"
)

func newISOCommand() *cobra.Command {
	return newGroup("iso", "Upload and inspect ISO images, and set their kernel arguments", "",
		newISOUploadCommand(), newISOInspectCommand(), newISOCustomizeCommand())
}

func newISOInspectCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show the contents of an ISO image, how it boots and which files can have kernel arguments",
		Example: `  glowplug iso inspect fedora-coreos.iso
  glowplug iso inspect -o json fedora-coreos.iso`,
		Args: arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, img, err := openISO(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			found, err := inspectISO(img)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return writeAs(cmd.OutOrStdout(), output, found, found.writeText)
		},
	}
	addOutput(cmd, &output)
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
		Long: `Write a copy of an ISO image with kernel arguments set in every boot configuration,
for BIOS and UEFI. The server does the same in memory; this command is for burning
the image, or for another iSCSI target. An argument replaces those of the same name.

Without --karg the distro's default is set: CoreOS fetches its Ignition config,
and Fedora and its relatives their kickstart, from the server at --http-url; both
find the image again over iSCSI, or over HTTP below --files-url. With --karg only
these are set, as with defaultKernelArgs: false of an ISCSICdrom.

OUT is created or replaced when the copy is complete; an error leaves it as it was.`,
		Example: `  glowplug iso customize fcos.iso -o node.iso --http-url http://192.168.10.1:8082
  glowplug iso customize fcos.iso -o node.iso --karg ignition.config.url=http://192.168.10.1/node.ign --karg console=ttyS0`,
		Args: arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case out == "":
				return usagef("missing flag -o OUT")
			case out == "-":
				return withHint(usagef("--output: a copy is not written to standard output"), "name a file")
			case slices.Contains(kargs, ""):
				return usagef("--karg: the argument is empty; without --karg the default of the distro is set")
			}
			if err := cmp.Or(checkURL("http-url", baseURL), checkURL("files-url", files)); err != nil {
				return err
			}
			file, img, err := openISO(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			if err := checkTarget(file, out); err != nil {
				return err
			}
			overlay, err := img.Customize(iso.Options{Args: kargs, BaseURL: baseURL, FilesURL: files})
			if err != nil {
				err = fmt.Errorf("%s: %w", args[0], err)
				if errors.Is(err, iso.ErrNoBaseURL) {
					return withHint(err, "--http-url names the server as machines reach it")
				}
				return err
			}
			if len(overlay.Args()) == 0 {
				return withHint(fmt.Errorf("%s: its distro (%s) has no default kernel arguments", args[0], img.Distro()),
					"name them with --karg")
			}
			bar := newProgress(cmd.ErrOrStderr(), out, overlay.Size())
			err = writeISO(cmd.Context(), overlay, out, func(n float64) { bar.add(int64(n)) })
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
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write")
	cmd.Flags().StringArrayVar(&kargs, "karg", nil,
		"kernel argument to set: a flag or key=value; ${glowplug} stands for --http-url (repeatable; default by distro)")
	cmd.Flags().StringVar(&baseURL, "http-url", "", "URL of the server as machines reach it")
	cmd.Flags().StringVar(&files, "files-url", "",
		"URL below which the files of the image are served (default: they are found over iSCSI)")
	return cmd
}

// checkURL refuses the value of a flag that machines could not use as a URL; "" is none.
func checkURL(flag, value string) error {
	if u, err := url.Parse(value); value != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return usagef("--%s: not a URL such as http://192.168.10.2:8082", flag)
	}
	return nil
}

// openISO opens an image file and reads its structure.
func openISO(name string) (*os.File, *iso.Image, error) {
	file, err := os.Open(name)
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

// checkTarget refuses an output file that the copy must not replace.
func checkTarget(in *os.File, out string) error {
	old, err := os.Stat(out)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !old.Mode().IsRegular() {
		return withHint(usagef("--output: %s is no regular file", out), "write to a file, and copy that to a device")
	}
	if image, err := in.Stat(); err == nil && os.SameFile(image, old) {
		return usagef("--output: %s is the image itself", out)
	}
	return nil
}

// copyBuffer is the buffer of a copy, in bytes.
const copyBuffer = 4 << 20

// writeISO writes the patched image beside out and renames it when all of it is on the
// disk. It calls written with the number of bytes of each step.
func writeISO(ctx context.Context, overlay *iso.Overlay, out string, written func(float64)) (err error) {
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
	content := &download.Counted{Context: ctx, Reader: io.NewSectionReader(overlay, 0, overlay.Size()), Count: written}
	if _, err := io.CopyBuffer(download.WriterOnly{Writer: to}, content, make([]byte, copyBuffer)); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return err
	}
	if err := to.Sync(); err != nil {
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	return os.Rename(partial, out)
}
