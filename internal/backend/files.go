package backend

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"glowplug/internal/credentials"
	"glowplug/internal/keyfile"
	"glowplug/internal/store/encryption"
	"glowplug/internal/store/natsd"
)

// Files are paths that are checked alike; "" is none.
type Files map[keyfile.Kind][]string

// Files are the files and folders of the store that hold secrets or name who is trusted.
func (o *Options) Files() Files {
	return Files{
		keyfile.Folder: {o.DataDir},
		keyfile.Inner: {
			filepath.Join(o.DataDir, "nats"), filepath.Join(o.DataDir, "ledger"), credentials.Folder(o.DataDir), o.PKIDir,
		},
		keyfile.Secret: append(credentials.Secrets(o.DataDir, o.PKIDir),
			o.NATS.Creds, o.NATS.UserFile, o.NATS.PasswordFile, o.NATS.KeyFile, o.encryptionFile()),
		keyfile.Trusted: append(credentials.Certificates(o.DataDir, o.PKIDir), o.NATS.CAFile, o.NATS.CertFile),
	}
}

// encryptionFile returns the file with the keys of the store; "": there is none.
func (o *Options) encryptionFile() string {
	if o.Encrypt {
		return filepath.Join(cmp.Or(o.PKIDir, credentials.Folder(o.DataDir)), encryption.OwnFile)
	}
	return o.EncryptionConfig
}

// CheckFiles calls warn for files that others may read, and refuses those that every user may
// write or that belong to another user, before they are read.
func (o *Options) CheckFiles(files Files, warn func(message, remedy string)) error {
	return o.checkFiles(files, keyfile.Check, warn)
}

// checkFilesOfServer is CheckFiles for a command that may run as root on the data directory of another user.
func (o *Options) checkFilesOfServer(warn func(message, remedy string)) error {
	return o.checkFiles(o.Files(), func(kind keyfile.Kind, path string) (*keyfile.Finding, error) {
		return keyfile.CheckOf(o.DataDir, kind, path)
	}, warn)
}

func (o *Options) checkFiles(files Files, check func(keyfile.Kind, string) (*keyfile.Finding, error),
	warn func(message, remedy string)) error {
	for _, kind := range []keyfile.Kind{keyfile.Folder, keyfile.Inner, keyfile.Secret, keyfile.Trusted} {
		for _, path := range files[kind] {
			if path == "" {
				continue
			}
			found, err := check(kind, path)
			if err != nil {
				return err
			}
			if found != nil {
				warn(found.Error(), found.Remedy)
			}
		}
	}
	if inArguments(o.NATSURL) {
		warn("--nats-url has a password or token on the command line, which every user of this machine can read",
			"give --nats-user-file and --nats-password-file, --nats-creds, or the URL as GLOWPLUG_NATS_URL in the environment")
	}
	return nil
}

// inArguments reports whether a secret of the NATS URLs is on the command line, which
// every user of the machine can read. Only the own user can read the environment.
func inArguments(urls string) bool {
	given := func(arg string) bool { return strings.Contains(arg, urls) }
	return natsd.HoldsSecret(urls) && slices.ContainsFunc(os.Args, given)
}
