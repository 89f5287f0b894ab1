package app

import (
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"glowplug/internal/store/natsd"
)

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

// checkNATS checks a list of URLs of NATS servers, which may be empty, and the files
// with the credentials for them.
func checkNATS(urls string, a natsd.Access) error {
	if urls != "" {
		for text := range strings.SplitSeq(urls, ",") {
			u, err := url.Parse(text)
			if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
				return bad("nats-url", "not a URL such as nats://nats.example:4222")
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
			return bad(pair.flag, "is empty, and --%s is not: both are needed", pair.otherFlag)
		}
	}
	switch {
	case a.UserFile != "" && a.Creds != "":
		return bad("nats-user-file", "cannot be used together with --nats-creds")
	case a.UserFile != "" && natsd.HoldsSecret(urls):
		return bad("nats-user-file", "cannot be used with a user in --nats-url")
	}
	return nil
}

// inArguments reports whether a secret of the NATS URLs is on the command line, which
// every user of the machine can read. Only the own user can read the environment.
func inArguments(urls string) bool {
	given := func(arg string) bool { return strings.Contains(arg, urls) }
	return natsd.HoldsSecret(urls) && slices.ContainsFunc(os.Args, given)
}
