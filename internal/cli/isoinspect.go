package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"glowplug/internal/domain/iso"
	"glowplug/internal/domain/report"
	"glowplug/internal/domain/wording"
)

// inspection is the answer of iso inspect.
type inspection struct {
	VolumeID string `json:"volumeID"`
	Distro   string `json:"distro"`
	// Architectures are those of the machines that can boot the image, where they are known.
	Architectures []string   `json:"architectures"`
	Size          int64      `json:"size"`
	Files         int        `json:"files"`
	Boots         []bootSpot `json:"boots"`
	Kernels       []string   `json:"kernels"`
	Initrds       []string   `json:"initrds"`
	DefaultArgs   []string   `json:"defaultArgs"`
	// Patchable are the files in which kernel arguments can be set. Refused says why
	// there are none.
	Patchable []string `json:"patchable"`
	Refused   string   `json:"refused,omitempty"`
}

type bootSpot struct {
	Platform string `json:"platform"`
	Offset   int64  `json:"offset"`
	Path     string `json:"path,omitempty"`
	FAT      bool   `json:"fat"`
}

func inspectISO(img *iso.Image) (*inspection, error) {
	found := &inspection{
		VolumeID: img.VolumeID(), Distro: img.Distro(), Architectures: img.Architectures(),
		Size: img.Size(), Files: img.FileCount(), DefaultArgs: img.DefaultArgs(""),
	}
	for _, b := range img.BootImages() {
		found.Boots = append(found.Boots, bootSpot{b.Platform, b.Off, b.Path, b.FAT})
	}
	files, _, err := img.BootFiles()
	var refused *iso.PatchError
	if err != nil && !errors.As(err, &refused) {
		return nil, err
	}
	for _, f := range files {
		if f.Kind == iso.Kernel {
			found.Kernels = append(found.Kernels, f.Path)
		} else {
			found.Initrds = append(found.Initrds, f.Path)
		}
	}
	overlay, err := img.Customize(iso.Options{Args: []string{"glowplug.inspect"}})
	if err != nil {
		found.Refused = err.Error()
	} else {
		found.Patchable = overlay.Patched()
	}
	return found, nil
}

func (f *inspection) writeText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(title string, values ...string) {
		for _, value := range values {
			fmt.Fprintf(w, "%s\t%s\n", title, value)
		}
	}
	row("volume", f.VolumeID)
	row("distro", f.Distro)
	row("architecture", f.Architectures...)
	row("size", report.Size(f.Size)+" in "+wording.Count(f.Files, "file", "files"))
	for _, b := range f.Boots {
		where := cmp.Or(b.Path, fmt.Sprintf("partition at %d", b.Offset))
		if b.FAT {
			where += " (FAT)"
		}
		row("boots "+b.Platform, where)
	}
	row("kernel", f.Kernels...)
	row("initrd", f.Initrds...)
	if len(f.DefaultArgs) > 0 {
		row("default arguments", strings.Join(f.DefaultArgs, " "))
	}
	row("arguments in", f.Patchable...)
	if f.Refused != "" {
		row("no arguments", f.Refused)
	}
	return w.Flush()
}
