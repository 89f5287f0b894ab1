package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// makeISO is the command mkiso of the scripts: mkiso FOLDER OUT VOLUME makes an
// image with Rock Ridge and Joliet of a folder.
func makeISO() {
	if err := buildISO(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "mkiso:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func buildISO(folder, out, volume string) error {
	disk, err := file.CreateFromPath(out, 2<<20)
	if err != nil {
		return err
	}
	defer disk.Close()
	work, err := os.MkdirTemp("", "mkiso")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	workspace := filepath.Join(work, "files")
	if err := os.CopyFS(workspace, os.DirFS(folder)); err != nil {
		return err
	}
	fs, err := iso9660.Create(disk, 2<<20, 0, 2048, workspace)
	if err != nil {
		return err
	}
	return fs.Finalize(iso9660.FinalizeOptions{RockRidge: true, Joliet: true, VolumeIdentifier: volume})
}
