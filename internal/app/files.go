package app

import (
	"path/filepath"
	"slices"

	"glowplug/internal/backend"
	"glowplug/internal/keyfile"
	"glowplug/internal/manifest"
	"glowplug/internal/option"
)

// keyFiles are the files and folders that hold secrets or name who is trusted.
func (s *settings) keyFiles() backend.Files {
	files := s.Store.Files()
	files[keyfile.Secret] = append(files[keyfile.Secret], s.Access.TokenAuthFile, s.Listeners.TLSKey,
		s.Console.OIDCClientSecretFile, auditFile(s))
	files[keyfile.Trusted] = append(files[keyfile.Trusted], s.Access.ClientCAFile, s.Access.AuthenticationConfig,
		s.Listeners.TLSCert, s.Images.Keyring, s.Audit.PolicyFile)
	return files
}

// obeyed are the files and folders that hold no secret, and whose writer the server obeys: manifests
// are applied with all rights, and in the folder of the admin socket another socket can take its
// place.
func (s *settings) obeyed() (backend.Files, error) {
	files, folders, err := manifest.Files(s.Manifests...)
	if err != nil {
		return nil, err
	}
	if network, path := networkOf(s.Listeners.AdminListen); network == "unix" {
		folders = append(folders, filepath.Dir(path))
	}
	return backend.Files{keyfile.Inner: folders, keyfile.Trusted: files}, nil
}

// checkPublic refuses folders whose files everybody may read, and that hold something private.
// It comes before the server makes any file.
func (s *settings) checkPublic() error {
	for _, folder := range []struct{ flag, path string }{{"streams-dir", s.Images.StreamsDir}, {"assets-dir", s.Images.AssetsDir}} {
		if folder.path == "" {
			continue
		}
		if inside := s.privateIn(folder.path); inside != "" {
			return option.Bad(folder.flag, "everybody may read the files of %s, and %s, which is private, is the same folder, "+
				"in it or around it: give another folder", folder.path, inside)
		}
	}
	return nil
}

// privateIn returns a file or folder that must not be served to everybody, if it is in dir or
// is a folder around dir; "" where there is none.
func (s *settings) privateIn(dir string) string {
	files, dir := s.keyFiles(), resolved(dir)
	within := func(folder, path string) bool {
		below, err := filepath.Rel(folder, path)
		return err == nil && filepath.IsLocal(below)
	}
	inner := files[keyfile.Inner]
	for _, path := range slices.Concat(files[keyfile.Folder], inner, files[keyfile.Secret], []string{s.Images.ISODir}) {
		if path == "" {
			continue
		}
		if at := resolved(path); within(dir, at) || slices.Contains(inner, path) && within(at, dir) {
			return path
		}
	}
	return ""
}

// resolved returns an absolute path without symbolic links, as far as it exists.
func resolved(path string) string {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(absolute); err == nil {
		return real
	}
	return filepath.Join(resolved(filepath.Dir(absolute)), filepath.Base(absolute))
}

// checkFiles warns of files that others may read, and refuses those that every user may
// write or that belong to another user, before they are read.
func (s *settings) checkFiles(warn func(message, remedy string)) error {
	files := s.keyFiles()
	obeyed, err := s.obeyed()
	if err != nil {
		return err
	}
	for kind, paths := range obeyed {
		files[kind] = append(files[kind], paths...)
	}
	return s.Store.CheckFiles(files, warn)
}
