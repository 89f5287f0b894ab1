package keyfile

import (
	"io/fs"
	"os"
)

// GiveTree gives what root has made below a folder to the user and the group of the folder: a command that an operator
// runs as root leaves a data directory that its server can read. That user may change the folder meanwhile, so nothing
// is given that a link leads to, of either kind.
func GiveTree(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	owner, group, ok := ownership(info)
	if !ok || owner == 0 {
		return nil
	}
	return fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if of, _, ok := ownership(info); !ok || of != 0 || !info.IsDir() && hasOtherNames(info) {
			return nil
		}
		return root.Lchown(path, owner, group)
	})
}

// CheckOf is Check for a command that an operator runs on the data directory of a server. Root sees what that server,
// whose user owns the folder, would see.
func CheckOf(dir string, kind Kind, path string) (warning *Finding, err error) {
	p := self()
	if info, err := os.Stat(dir); err == nil && p.uid == 0 {
		if owner, group, ok := ownership(info); ok && owner != 0 {
			p = process{uid: owner, groups: []int{group}}
		}
	}
	return p.check(kind, path)
}
