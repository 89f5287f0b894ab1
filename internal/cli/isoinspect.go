package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"glowplug/internal/domain/iso"
)

// inspection is what iso inspect says.
type inspection struct {
	VolumeID    string     `json:"volumeID"`
	Distro      string     `json:"distro"`
	Size        int64      `json:"size"`
	Files       int        `json:"files"`
	Boots       []bootSpot `json:"boots"`
	Kernels     []string   `json:"kernels"`
	Initrds     []string   `json:"initrds"`
	DefaultArgs []string   `json:"defaultArgs"`
	// Patchable are the files that kernel arguments would be set in; Refused says
	// why there are none.
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
		VolumeID: img.VolumeID(), Distro: img.Distro(), Size: img.Size(), Files: img.FileCount(),
		DefaultArgs: img.DefaultArgs(""),
	}
	for _, b := range img.BootImages() {
		found.Boots = append(found.Boots, bootSpot{b.Platform, b.Off, b.Path, b.FAT})
	}
	files, err := img.BootFiles()
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
	fmt.Fprintf(w, "volume\t%s\n", f.VolumeID)
	fmt.Fprintf(w, "distro\t%s\n", f.Distro)
	fmt.Fprintf(w, "size\t%s in %d files\n", byteCount(f.Size), f.Files)
	for _, b := range f.Boots {
		where := b.Path
		if where == "" {
			where = fmt.Sprintf("partition at %d", b.Offset)
		}
		if b.FAT {
			where += " (FAT)"
		}
		fmt.Fprintf(w, "boots %s\t%s\n", b.Platform, where)
	}
	list := func(title string, names []string) {
		for _, name := range names {
			fmt.Fprintf(w, "%s\t%s\n", title, name)
		}
	}
	list("kernel", f.Kernels)
	list("initrd", f.Initrds)
	if len(f.DefaultArgs) > 0 {
		fmt.Fprintf(w, "default arguments\t%s\n", strings.Join(f.DefaultArgs, " "))
	}
	list("arguments in", f.Patchable)
	if f.Refused != "" {
		fmt.Fprintf(w, "no arguments\t%s\n", f.Refused)
	}
	return w.Flush()
}
