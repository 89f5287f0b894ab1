package backend

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"glowplug/internal/option"
	"glowplug/internal/store/encryption"
	"glowplug/internal/store/ledger"
	"glowplug/internal/store/natsd"
	"glowplug/internal/store/replicas"
)

// Options name the store and the keys that it is encrypted with.
type Options struct {
	DataDir string
	// PKIDir is the folder of the server's own CA, and of the key that Encrypt makes; "": pki in DataDir.
	PKIDir string

	NATSURL      string
	NATS         natsd.Access
	NATSReplicas int
	NATSMaxBytes string // a Kubernetes quantity

	// EncryptionConfig is a file of keys for the store; Encrypt makes one of its own.
	EncryptionConfig string
	Encrypt          bool
}

const encryptionFlag = "encryption-provider-config"

// AddFlags declares the flags with their defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.DataDir, "data-dir", "./glowplug-data",
		"folder of the embedded store, the certificates and admin.kubeconfig")
	fs.StringVar(&o.PKIDir, "pki-dir", "",
		"folder of the server's own CA, which several servers on one store have to share (default: pki in --data-dir)")
	fs.StringVar(&o.NATSURL, "nats-url", "",
		"external NATS server or cluster with JetStream, instead of the embedded store")
	addNATSFlags(fs, &o.NATS)
	fs.IntVar(&o.NATSReplicas, "nats-replicas", 0,
		"NATS servers that hold each bucket of --nats-url: 1 to 5; 0 is three where the cluster has three or more, else one")
	fs.StringVar(&o.NATSMaxBytes, "nats-max-bytes", "",
		"what the store may take of --nats-url, as 2Gi, where the account has no JetStream quota of its own (max_file)")
	fs.StringVar(&o.EncryptionConfig, encryptionFlag, "", "YAML file with the keys that the store is encrypted with, "+
		"an EncryptionConfiguration as for kube-apiserver; read at the start (default: the store is not encrypted)")
	fs.BoolVar(&o.Encrypt, "encrypt", false, "encrypt the store with a key that the first start makes in "+
		encryption.OwnFile+" of --pki-dir; without that file nothing of the store can be read")
}

// addNATSFlags declares the files by which an external NATS is reached.
func addNATSFlags(fs *pflag.FlagSet, a *natsd.Access) {
	fs.StringVar(&a.Creds, "nats-creds", "", "credentials file for --nats-url")
	fs.StringVar(&a.UserFile, "nats-user-file", "",
		"file with the user name for --nats-url (the key username of a kubernetes.io/basic-auth Secret)")
	fs.StringVar(&a.PasswordFile, "nats-password-file", "",
		"file with the password for --nats-url (the key password of such a Secret)")
	fs.StringVar(&a.CAFile, "nats-ca-file", "",
		"PEM file of the CAs that sign the certificate of --nats-url (default: the system's); connects with TLS only")
	fs.StringVar(&a.CertFile, "nats-cert-file", "",
		"PEM file of the client certificate for --nats-url; connects with TLS only")
	fs.StringVar(&a.KeyFile, "nats-key-file", "", "PEM file of the key of --nats-cert-file")
}

// minNATSBytes is the least --nats-max-bytes: the reserves, and a config.
const minNATSBytes = 16 << 20

// Check returns the error of the first flag that cannot be used.
func (o *Options) Check() error {
	if err := checkDataDir(o.DataDir); err != nil {
		return err
	}
	if err := checkNATS(o.NATSURL, o.NATS); err != nil {
		return err
	}
	if o.NATSReplicas < 0 || o.NATSReplicas > replicas.Max {
		return option.Bad("nats-replicas", "%d is not between 0 and %d", o.NATSReplicas, replicas.Max)
	}
	if quantity, err := resource.ParseQuantity(cmp.Or(o.NATSMaxBytes, "16Mi")); err != nil || quantity.Value() < minNATSBytes {
		return option.Bad("nats-max-bytes", "%q is not a size such as 2Gi, or is less than 16Mi", o.NATSMaxBytes)
	}
	for flag, isGiven := range map[string]bool{"nats-replicas": o.NATSReplicas != 0, "nats-max-bytes": o.NATSMaxBytes != ""} {
		if isGiven && o.NATSURL == "" {
			return option.Bad(flag, "%s", needsURL)
		}
	}
	if o.EncryptionConfig == "" {
		return nil
	}
	if o.Encrypt {
		return option.Bad("encrypt", "makes a key of its own: give it or --%s, not both", encryptionFlag)
	}
	if _, err := os.Stat(o.EncryptionConfig); err != nil {
		return option.Bad(encryptionFlag, "%v", err)
	}
	return nil
}

// natsMaxBytes returns --nats-max-bytes in bytes; 0: it is not given.
func (o *Options) natsMaxBytes() int64 {
	quantity, err := resource.ParseQuantity(o.NATSMaxBytes)
	if err != nil {
		return 0 // Check refuses other errors than an empty value
	}
	return quantity.Value()
}

// checkNATS checks a list of URLs of NATS servers, which may be empty, and the files
// with the credentials for them.
func checkNATS(urls string, a natsd.Access) error {
	if urls != "" {
		for text := range strings.SplitSeq(urls, ",") {
			u, err := url.Parse(text)
			if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
				return option.Bad("nats-url", "not a URL such as nats://nats.example:4222")
			}
		}
	}
	for _, pair := range []struct{ flag, file, otherFlag, otherFile string }{
		{"nats-password-file", a.PasswordFile, "nats-user-file", a.UserFile},
		{"nats-user-file", a.UserFile, "nats-password-file", a.PasswordFile},
		{"nats-key-file", a.KeyFile, "nats-cert-file", a.CertFile},
		{"nats-cert-file", a.CertFile, "nats-key-file", a.KeyFile},
	} {
		if pair.file == "" && pair.otherFile != "" {
			return option.Bad(pair.flag, "is empty, and --%s is not: both are needed", pair.otherFlag)
		}
	}
	switch {
	case a.UserFile != "" && a.Creds != "":
		return option.Bad("nats-user-file", "cannot be used together with --nats-creds")
	case a.UserFile != "" && natsd.HoldsSecret(urls):
		return option.Bad("nats-user-file", "cannot be used with a user in --nats-url")
	}
	for _, given := range []struct{ flag, file string }{
		{"nats-creds", a.Creds}, {"nats-user-file", a.UserFile}, {"nats-ca-file", a.CAFile}, {"nats-cert-file", a.CertFile},
	} {
		if urls == "" && given.file != "" {
			return option.Bad(given.flag, "%s", needsURL)
		}
	}
	return nil
}

// needsURL is the reason against an option of an external store where there is none.
const needsURL = "is for an external store: give --nats-url too"

// checkDataDir refuses what cannot be a data directory. It may not exist yet.
func checkDataDir(dir string) error {
	if dir == "" {
		return option.Bad("data-dir", "is empty: name the folder that holds the store")
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return option.Bad("data-dir", "%s is a file: name a folder", dir)
	}
	return nil
}

// CheckAbove refuses to begin a store inside of another one's data directory: an operator
// who names another folder of the same volume does not want an empty store.
func (o *Options) CheckAbove() error {
	above := filepath.Dir(filepath.Clean(o.DataDir))
	if ledger.Holds(o.DataDir) || !ledger.Holds(above) {
		return nil
	}
	return option.Bad("data-dir", "%s holds no store, and %s above it does: give --data-dir %[2]s, or move what is there into "+
		"%[1]s", o.DataDir, above)
}
