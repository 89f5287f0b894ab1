package app

import (
	"errors"
	"strings"
	"testing"

	"glowplug/internal/option"

	"github.com/spf13/pflag"
)

// TestOptions: an option that cannot be used is named by its flag.
func TestOptions(t *testing.T) {
	for args, flag := range map[string]string{
		"--data-dir=":                                   "data-dir",
		"--listen=8082":                                 "listen",
		"--listen-tls=nowhere":                          "listen-tls",
		"--manifests=/does/not/exist":                   "manifests",
		"--nats-url=garbage://x":                        "nats-url",
		"--nats-url=nats://":                            "nats-url",
		"--nats-url=nats://a:4222,b":                    "nats-url",
		"--nats-replicas=6":                             "nats-replicas",
		"--nats-replicas=-1":                            "nats-replicas",
		"--nats-replicas=3":                             "nats-replicas",
		"--nats-url=nats://a:4222 --nats-replicas=3":    "",
		"--data-dir=options_test.go":                    "data-dir",
		"--listen=:99999":                               "listen",
		"--listen-tls=127.0.0.1:65536":                  "listen-tls",
		"--tls-san=a_b":                                 "",
		"--tls-san=a!b":                                 "tls-san",
		"--tls-san=*.example,192.0.2.1":                 "",
		"--token-auth-file=/does/not/exist":             "token-auth-file",
		"--authentication-config=/does/not/exist":       "authentication-config",
		"--nats-creds=c":                                "nats-creds",
		"--nats-ca-file=c":                              "nats-ca-file",
		"--nats-max-bytes=much":                         "nats-max-bytes",
		"--nats-max-bytes=1Mi":                          "nats-max-bytes",
		"--nats-max-bytes=2Gi":                          "nats-max-bytes",
		"--nats-url=nats://a:4222 --nats-max-bytes=2Gi": "",
		"--trusted-proxies=10.0.0.0/99":                 "trusted-proxies",
		"--identity-claims=maybe":                       "identity-claims",
		"--neighbors=on":                                "neighbors",
		"--nats-user-file=u":                            "nats-password-file",
		"--nats-password-file=p":                        "nats-user-file",
		"--nats-cert-file=c":                            "nats-key-file",
		"--nats-key-file=k":                             "nats-cert-file",
		"--nats-user-file=u --nats-password-file=p":     "nats-user-file",
		"--nats-user-file=u --nats-password-file=p --nats-url=nats://a:4222":    "",
		"--nats-user-file=u --nats-password-file=p --nats-creds=c":              "nats-user-file",
		"--nats-user-file=u --nats-password-file=p --nats-url=nats://token@a:1": "nats-user-file",
		"--audit-log-maxsize=0":                                                 "audit-log-maxsize",
		"--audit-log-maxbackup=-1":                                              "audit-log-maxbackup",
		"--audit-log-maxage=-1":                                                 "audit-log-maxage",
		"--audit-log-mode=never":                                                "audit-log-mode",
		"--audit-log-path=-":                                                    "",
		"--audit-policy-file=options.go":                                        "audit-policy-file",
		"--audit-log-path=- --audit-policy-file=options.go":                     "audit-policy-file",
		"--audit-log-path=- --audit-policy-file=/does/not/exist":                "audit-policy-file",
		"--metrics=closed":                                                      "metrics",
		"--metrics=credential":                                                  "",
		"--metrics-listen=9090":                                                 "metrics-listen",
		"--metrics-listen=127.0.0.1:9090":                                       "",
		"--allow-fetch=10.0.0.0/99":                                             "allow-fetch",
		"--allow-image-fetch=mirror.lan":                                        "allow-image-fetch",
		"--allow-image-fetch=10.0.0.0/99":                                       "allow-image-fetch",
		"--allow-image-fetch=10.0.0.0/8,127.0.0.1":                              "",
		"--max-connections=0":                                                   "max-connections",
		"--max-connections-per-source=-1":                                       "max-connections-per-source",
		"--max-connections-per-source=0":                                        "",
		"--max-requests-per-source=-1":                                          "max-requests-per-source",
		"--max-requests-per-source=0":                                           "",
		"--configs-over-https --listen-tls=":                                    "configs-over-https",
		"--configs-over-https --http-url=http://a..b":                           "http-url",
		"--configs-over-https --http-url=http://boot.lan:8082":                  "",
		"--configs-over-https --http-url=http://boot.lan/a":                     "http-url",
		"--configs-over-https --http-url=https://boot.lan/a":                    "",
		"--configs-over-https --allow-insecure-api":                             "configs-over-https",
		"--configs-over-https --listen=192.0.2.1:80 --listen-tls=192.0.2.2:443": "configs-over-https",
		"--configs-over-https --listen=192.0.2.1:80 --listen-tls=192.0.2.1:443": "",
		"--configs-over-https --listen=192.0.2.1:80 --listen-tls=[::]:443":      "",
		"--configs-over-https --listen=192.0.2.1:80 --listen-tls=192.0.2.2:443 --http-url=http://192.0.2.2:80": "",
		"--admin-listen=127.0.0.1:8081":                                 "",
		"--admin-listen=[::1]:8081":                                     "",
		"--admin-listen=unix:/run/admin.sock":                           "",
		"--admin-listen=unix:":                                          "admin-listen",
		"--admin-listen=:8081":                                          "admin-listen",
		"--admin-listen=0.0.0.0:8081":                                   "admin-listen",
		"--admin-listen=192.0.2.1:8081":                                 "admin-listen",
		"--admin-listen=localhost:8081":                                 "admin-listen",
		"--admin-listen=8081":                                           "admin-listen",
		"--log-level=loud":                                              "log-level",
		"--console-url=http://boot.lan/console/":                        "console-url",
		"--console-url=https://boot.lan/other":                          "console-url",
		"--console-url=https://boot.lan/?a=b":                           "console-url",
		"--console-url=https://boot.lan":                                "",
		"--console-oidc-client-secret-file=options.go":                  "console-oidc-client-id",
		"--console-oidc-client-id=c":                                    "console-oidc-client-id",
		"--console-oidc-client-id=c --authentication-config=options.go": "console-oidc-client-id",
		"--console-oidc-client-id=c --console-url=https://a":            "console-oidc-client-id",
		"--console-oidc-client-id=c --console-url=https://a --authentication-config=options.go":                                        "",
		"--console-oidc-client-id=c --console-url=https://a --authentication-config=options.go --console=false":                        "console-oidc-client-id",
		"--console-oidc-client-id=c --console-url=https://a --authentication-config=options.go --listen-tls=":                          "console-oidc-client-id",
		"--console-oidc-client-id=c --console-url=https://a --authentication-config=options.go --console-oidc-client-secret-file=none": "console-oidc-client-secret-file",
		"--coreos-configmap=name":                           "coreos-configmap",
		"--coreos-configmap=Bad/name":                       "coreos-configmap",
		"--streams-alias=/pub/a.json":                       "streams-alias",
		"--streams-alias=pub/a.json=a":                      "streams-alias",
		"--streams-alias=/pub/../a.json=a":                  "streams-alias",
		"--streams-alias=/api/v1/x=a":                       "streams-alias",
		"--streams-alias=/pub/a=a,/pub/a=b":                 "streams-alias",
		"--tls-cert-file=a.crt":                             "tls-private-key-file",
		"--tls-private-key-file=a.key":                      "tls-cert-file",
		"--coreos-configmap=":                               "",
		"--streams-alias=/pub/a=a,/pub/b=a":                 "",
		"--log-format=xml":                                  "log-format",
		"--nats-url=nats://user:secret@a:4222,tls://b:4222": "",
		"--trusted-proxies=10.0.0.1,fd00::/8":               "",
	} {
		var o Options
		fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		o.AddFlags(fs)
		if err := fs.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		_, err := o.check()
		var bad *option.Error
		switch {
		case flag == "" && err != nil:
			t.Errorf("%s: %v", args, err)
		case flag != "" && (!errors.As(err, &bad) || bad.Flag != flag):
			t.Errorf("%s: %v, want an error of --%s", args, err, flag)
		}
	}
}
