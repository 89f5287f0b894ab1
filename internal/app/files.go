package app

import (
	"path/filepath"
	"slices"

	"glowplug/internal/credentials"
	"glowplug/internal/keyfile"
	"glowplug/internal/manifest"
	"glowplug/internal/store/ledger"
)

// keyFiles are the files and folders that hold secrets or name who is trusted.
func (s *settings) keyFiles() map[keyfile.Kind][]string {
	return map[keyfile.Kind][]string{
		keyfile.Folder: {s.DataDir},
		keyfile.Inner: {
			filepath.Join(s.DataDir, "nats"), filepath.Join(s.DataDir, "ledger"), credentials.Folder(s.DataDir), s.PKIDir,
		},
		keyfile.Secret: append(credentials.Secrets(s.DataDir, s.PKIDir),
			s.TokenAuthFile, s.TLSKey, s.NATS.Creds, s.NATS.UserFile, s.NATS.PasswordFile, s.NATS.KeyFile,
			auditFile(s), encryptionFile(s)),
		keyfile.Trusted: append(credentials.Certificates(s.DataDir, s.PKIDir),
			s.ClientCAFile, s.AuthenticationConfig, s.TLSCert, s.Keyring, s.NATS.CAFile, s.NATS.CertFile,
			s.Audit.PolicyFile),
	}
}

// obeyed are the files and folders that hold no secret, and whose writer the server obeys: manifests
// are applied with all rights, and in the folder of the admin socket another socket can take its
// place.
func (s *settings) obeyed() (map[keyfile.Kind][]string, error) {
	files, err := manifest.Files(s.Manifests...)
	if err != nil {
		return nil, err
	}
	folders, err := manifest.Folders(s.Manifests...)
	if err != nil {
		return nil, err
	}
	if network, path := networkOf(s.AdminListen); network == "unix" {
		folders = append(folders, filepath.Dir(path))
	}
	return map[keyfile.Kind][]string{keyfile.Inner: folders, keyfile.Trusted: files}, nil
}

// checkPublic refuses folders whose files everybody may read, and that hold something private.
// It comes before the server makes any file.
func (s *settings) checkPublic() error {
	for _, folder := range []struct{ flag, path string }{{"streams-dir", s.StreamsDir}, {"assets-dir", s.AssetsDir}} {
		if folder.path == "" {
			continue
		}
		if inside := s.privateIn(folder.path); inside != "" {
			return bad(folder.flag, "everybody may read the files of %s, and %s, which is private, is the same folder, "+
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
	for _, path := range slices.Concat(files[keyfile.Folder], inner, files[keyfile.Secret], []string{s.ISODir}) {
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

// checkAbove refuses to begin a store inside of another one's data directory: an operator
// who names another folder of the same volume does not want an empty store.
func (s *settings) checkAbove() error {
	above := filepath.Dir(filepath.Clean(s.DataDir))
	if ledger.Holds(s.DataDir) || !ledger.Holds(above) {
		return nil
	}
	return bad("data-dir", "%s holds no store, and %s above it does: give --data-dir %[2]s, or move what is there into "+
		"%[1]s", s.DataDir, above)
}

// checkFiles warns of files that others may read, and refuses those that every user may
// write or that belong to another user, before they are read.
func (s *settings) checkFiles(warn func(message, remedy string)) error {
	files := s.keyFiles()
	obeyed, err := s.obeyed()
	if err != nil {
		return err
	}
	for _, kind := range []keyfile.Kind{keyfile.Folder, keyfile.Inner, keyfile.Secret, keyfile.Trusted} {
		for _, path := range append(files[kind], obeyed[kind]...) {
			if path == "" {
				continue
			}
			found, err := keyfile.Check(kind, path)
			if err != nil {
				return err
			}
			if found != nil {
				warn(found.Error(), found.Remedy)
			}
		}
	}
	if inArguments(s.NATSURL) {
		warn("--nats-url has a password or token on the command line, which every user of this machine can read",
			"give --nats-user-file and --nats-password-file, --nats-creds, or the URL as GLOWPLUG_NATS_URL in the environment")
	}
	return nil
}
