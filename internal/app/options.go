package app

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "glowplug/api/v1"
	"glowplug/internal/audit"
	"glowplug/internal/credentials"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/ipxe"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/egress"
	"glowplug/internal/image/download"
	"glowplug/internal/serve/machine"
	"glowplug/internal/store/natsd"
	"glowplug/internal/store/replicas"
)

// Options are the options of `glowplug serve`. Each field is a flag and an environment
// variable; AddFlags has their meaning, and docs/reference/commands.md is generated from it.
type Options struct {
	DataDir   string
	Listen    []string
	ListenTLS string
	TLSSANs   []string
	TLSCert   string
	TLSKey    string
	PKIDir    string
	Manifests []string

	NATSURL      string
	NATS         natsd.Access
	NATSReplicas int
	NATSMaxBytes string // a Kubernetes quantity

	AdminListen      string
	AllowInsecureAPI bool
	ClientCAFile     string
	TokenAuthFile    string
	// AuthenticationConfig is a file of OpenID Connect issuers.
	AuthenticationConfig string

	TrustedProxies      []string
	IdentityClaims      string
	Neighbors           string
	IsolateNamespaces   model.Isolation
	RejectBrokenConfigs bool

	AllowFetch      []string
	AllowImageFetch []string

	ISODir      string
	Keyring     string
	ISCSIListen string
	ISCSIPortal string
	HTTPURL     string
	// ConfigsOverHTTPS has configs served over HTTPS alone.
	ConfigsOverHTTPS bool
	UnknownHosts     string

	CoreOSConfigMap       string
	CoreOSConfigMapStream string
	StreamsAlias          []string
	StreamsDir            string
	AssetsDir             string

	// EncryptionConfig is a file of keys for the store; Encrypt makes one of its own.
	EncryptionConfig string
	Encrypt          bool

	Audit audit.Options

	Metrics                 string
	MetricsListen           string
	MaxConnections          int
	MaxConnectionsPerSource int
	// MaxRequestsPerSource is in a second.
	MaxRequestsPerSource int
	LogLevel             string
	LogFormat            string
}

// AddFlags declares the flags with their defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.DataDir, "data-dir", "./glowplug-data",
		"folder of the embedded store, the certificates and admin.kubeconfig")
	fs.StringSliceVar(&o.Listen, "listen", []string{":8082"},
		"address of plain HTTP (repeatable: port 80 on the PXE network, say)")
	fs.StringVar(&o.ListenTLS, "listen-tls", ":8443", "address of HTTPS; empty: none")
	fs.StringSliceVar(&o.TLSSANs, "tls-san", nil, "further name or address in the server's certificate (repeatable)")
	fs.StringVar(&o.TLSCert, "tls-cert-file", "", "PEM file of a certificate of your own for HTTPS, followed by those "+
		"of its CAs; read again when it changes (default: one of the server's own CA)")
	fs.StringVar(&o.TLSKey, "tls-private-key-file", "", "PEM file of the key of --tls-cert-file")
	fs.StringVar(&o.PKIDir, "pki-dir", "",
		"folder of the server's own CA, which several servers on one store have to share (default: pki in --data-dir)")
	fs.StringSliceVar(&o.Manifests, "manifests", nil,
		"YAML or JSON file or folder applied by server-side apply at each start (repeatable)")
	fs.StringVar(&o.NATSURL, "nats-url", "",
		"external NATS server or cluster with JetStream, instead of the embedded store")
	addNATSFlags(fs, &o.NATS)
	fs.IntVar(&o.NATSReplicas, "nats-replicas", 0,
		"NATS servers that hold each bucket of --nats-url: 1 to 5; 0 is three where the cluster has three or more, else one")
	fs.StringVar(&o.NATSMaxBytes, "nats-max-bytes", "",
		"what the store may take of --nats-url, as 2Gi, where the account has no JetStream quota of its own (max_file)")
	fs.StringVar(&o.AdminListen, adminFlag, "", "loopback address, as 127.0.0.1:8081, or unix:PATH,"+
		" where root and the user that the server runs as use the API without a credential")
	fs.BoolVar(&o.AllowInsecureAPI, "allow-insecure-api", false,
		"serve the API over plain HTTP to other machines (credentials cross the network in the clear)")
	fs.StringVar(&o.ClientCAFile, "client-ca-file", "",
		"PEM file of CAs whose client certificates are accepted besides the own CA's")
	fs.StringVar(&o.TokenAuthFile, "token-auth-file", "", `CSV file of static API tokens: token,user,uid,"group1,group2"`)
	fs.StringVar(&o.AuthenticationConfig, "authentication-config", "", "YAML file of the OpenID Connect issuers whose "+
		"users may use the API, an AuthenticationConfiguration as for kube-apiserver; read again when it changes")
	fs.StringSliceVar(&o.TrustedProxies, "trusted-proxies", nil,
		"addresses or CIDRs of proxies whose X-Forwarded-For is believed (repeatable)")
	fs.StringVar(&o.IdentityClaims, "identity-claims", "verify",
		"how far a machine's claims (?mac=, ?hostname=, …) are believed: verify, trust or deny")
	fs.StringVar(&o.Neighbors, "neighbors", "auto", "use of the kernel's neighbour table: auto, enforce or off")
	AddIsolation(fs, &o.IsolateNamespaces, "namespaces that are islands, whose configs and images are for their own hosts "+
		"alone, besides those that tenants may write: all, true (all but default), or false (no others)")
	fs.BoolVar(&o.RejectBrokenConfigs, "reject-broken-configs", false, "refuse an IgnitionConfig whose source does not "+
		"compile, instead of storing it with a warning; the annotation "+v1.AnnotationRejectBroken+" does it for one "+
		"config or one namespace")
	fs.StringSliceVar(&o.AllowFetch, "allow-fetch", nil,
		"host, *.domain, address or CIDR that ignitionconfigs/NAME/rendered may fetch configs from which a config names "+
			"(repeatable; default: nothing is fetched)")
	fs.StringSliceVar(&o.AllowImageFetch, "allow-image-fetch", nil,
		"address or CIDR that images may be downloaded from besides public addresses, such as 10.0.0.0/8 (repeatable)")
	fs.StringVar(&o.ISODir, "iso-dir", "", "folder of the ISO files that machines boot; iSCSI is served only with one")
	fs.StringVar(&o.Keyring, "keyring", "",
		"file of OpenPGP public keys that images of streams have to be signed with (default: their SHA-256 is enough)")
	fs.StringVar(&o.ISCSIListen, "iscsi-listen", ":3260", "address of the iSCSI target")
	fs.StringVar(&o.ISCSIPortal, "iscsi-portal", "",
		"address, or address:port, that machines are told for iSCSI (default: the one they reached this server at)")
	fs.StringVar(&o.HTTPURL, "http-url", "",
		"URL of this server as machines reach it (default: in scripts the address that a machine asked at, in kernel "+
			"arguments of images and in templates an address of this server)")
	fs.BoolVar(&o.ConfigsOverHTTPS, "configs-over-https", false, "serve configs over HTTPS alone: over plain HTTP, "+
		"Ignition gets a config that refers it to HTTPS, with the CA of the server, and other installers get 403")
	fs.StringVar(&o.UnknownHosts, "unknown-hosts", "menu",
		"what a machine boots that is no known host: exit (its disk), menu (a screen to choose an image), default (the "+
			"image with spec.default)")
	fs.StringVar(&o.CoreOSConfigMap, "coreos-configmap", "openshift-machine-config-operator/coreos-bootimages",
		"ConfigMap, as namespace/name, that shows the current release of a CoreOS stream; empty: none")
	fs.StringVar(&o.CoreOSConfigMapStream, "coreos-configmap-stream", "",
		"stream that the ConfigMap shows (default: the one it showed before, at first the one imported first)")
	fs.StringSliceVar(&o.StreamsAlias, "streams-alias", nil,
		"further path of a stream's metadata, as /pub/openshift-v4/dependencies/rhcos-4.8.json=rhcos-4.8 (repeatable)")
	fs.StringVar(&o.StreamsDir, "streams-dir", "",
		"folder of CoreOS images, as coreos mirror fills it, served under /streams/artifacts/")
	fs.StringVar(&o.AssetsDir, "assets-dir", "", "folder of files that every machine may read, served under /assets/")
	addEncryptionFlags(fs, o)
	addAuditFlags(fs, &o.Audit)
	fs.StringVar(&o.Metrics, "metrics", "open",
		"who may read /metrics: open (anybody) or credential (callers who may use the API)")
	fs.StringVar(&o.MetricsListen, "metrics-listen", "",
		"address of plain HTTP that serves /metrics and health alone; /metrics is not served elsewhere then (default: "+
			"every listener serves it)")
	fs.IntVar(&o.MaxConnections, "max-connections", 16384, "open connections of each listener at most")
	fs.IntVar(&o.MaxConnectionsPerSource, "max-connections-per-source", 64, "open connections of one IPv4 address"+
		" or IPv6 /64 at each HTTP listener at most, trusted proxies aside; 0: no such bound")
	fs.IntVar(&o.MaxRequestsPerSource, "max-requests-per-source", 1000, "requests a second of one IPv4 address or"+
		" IPv6 /64 at most, of machines and of others each, and new connections, trusted proxies aside; 0: no such"+
		" bound")
	fs.StringVar(&o.LogLevel, "log-level", "info", "debug, info, warn or error")
	fs.StringVar(&o.LogFormat, "log-format", "text", "text or json")
}

// OptionError is an option that cannot be used; it names the flag.
type OptionError struct {
	Flag   string
	Reason string
}

func (e *OptionError) Error() string { return "--" + e.Flag + ": " + e.Reason }

// settings are the options, checked and parsed.
type settings struct {
	Options
	proxies                 []netip.Prefix
	claims                  identity.Mode
	neighbors               identity.NeighborMode
	level                   slog.Level
	allowFetch, allowImages egress.Policy
	natsMaxBytes            int64             // 0: none is given
	keyring                 *download.Keyring // nil: none is given
	auditPolicy             *audit.Policy     // nil: there is no audit
	portalHost              string            // of --iscsi-portal, as portalPort
	portalPort              uint16
	mapNamespace, mapName   string            // of --coreos-configmap
	aliases                 map[string]string // of --streams-alias: path to stream
}

var (
	claimModes    = map[string]identity.Mode{"verify": identity.Verify, "trust": identity.Trust, "deny": identity.Deny}
	neighborModes = map[string]identity.NeighborMode{"auto": identity.NeighborsAuto, "enforce": identity.NeighborsEnforce,
		"off": identity.NeighborsOff}
)

// minNATSBytes is the least --nats-max-bytes: the reserves, and a config.
const minNATSBytes = 16 << 20

// check parses the options. Its error names the first flag that cannot be used.
func (o Options) check() (*settings, error) {
	s := &settings{Options: o}
	for _, check := range []func() error{
		s.checkChoices, s.checkListen, s.checkStore, s.checkNetworks, s.checkBoot, s.checkStreams, s.checkLimits,
		func() error { return checkEncryption(s) }, func() error { return checkAudit(s) },
		func() error { return checkHTTPS(s) },
	} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// bad returns the error about the value of a flag.
func bad(flag, format string, args ...any) error {
	return &OptionError{Flag: flag, Reason: fmt.Sprintf(format, args...)}
}

// Choices has the values of each flag that has a list of them.
var Choices = map[string][]string{
	"identity-claims": {"verify", "trust", "deny"},
	"neighbors":       {"auto", "enforce", "off"},
	"unknown-hosts":   {machine.UnknownExit, machine.UnknownMenu, machine.UnknownDefault},
	"metrics":         {metricsOpen, metricsCredential},
	"audit-log-mode":  {audit.ModeBatch, audit.ModeBlocking, audit.ModeBlockingStrict},
	"log-format":      {"text", "json"},
	"log-level":       {"debug", "info", "warn", "error"},
}

// checkChoices checks the options that have a list of values.
func (s *settings) checkChoices() error {
	for _, c := range []struct{ flag, value string }{
		{"identity-claims", s.IdentityClaims},
		{"neighbors", s.Neighbors},
		{"unknown-hosts", s.UnknownHosts},
		{"metrics", s.Metrics},
		{"audit-log-mode", s.Audit.Mode},
		{"log-format", s.LogFormat},
		{"log-level", strings.ToLower(s.LogLevel)},
	} {
		if values := Choices[c.flag]; !slices.Contains(values, c.value) {
			return bad(c.flag, "%q is none of %s", c.value, strings.Join(values, ", "))
		}
	}
	if err := s.level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return bad("log-level", "%v", err)
	}
	s.claims, s.neighbors = claimModes[s.IdentityClaims], neighborModes[s.Neighbors]
	return nil
}

// checkAddress checks an address to listen on.
func checkAddress(flag, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return bad(flag, "%q is not an address: want host:port or :port", address)
	}
	if n, err := strconv.Atoi(port); err == nil && (n < 0 || n > math.MaxUint16) {
		return bad(flag, "%q: there is no port %s", address, port)
	}
	return nil
}

// checkListen checks the options of the listeners.
func (s *settings) checkListen() error {
	if len(s.Listen) == 0 && s.ListenTLS == "" {
		return bad("listen", "is empty and so is --listen-tls: nothing would be served")
	}
	for _, address := range s.Listen {
		if err := checkAddress("listen", address); err != nil {
			return err
		}
	}
	for flag, address := range map[string]string{"listen-tls": s.ListenTLS, "metrics-listen": s.MetricsListen} {
		if address == "" {
			continue
		}
		if err := checkAddress(flag, address); err != nil {
			return err
		}
	}
	for _, name := range s.TLSSANs {
		if _, _, err := credentials.ParseName(name); err != nil {
			return bad("tls-san", "%v", err)
		}
	}
	for flag, path := range map[string]string{
		"token-auth-file": s.TokenAuthFile, "authentication-config": s.AuthenticationConfig,
	} {
		if _, err := os.Stat(path); path != "" && err != nil {
			return bad(flag, "%v", err)
		}
	}
	switch {
	case s.TLSCert != "" && s.TLSKey == "":
		return bad("tls-private-key-file", "is empty, and --tls-cert-file is not: both are needed")
	case s.TLSCert == "" && s.TLSKey != "":
		return bad("tls-cert-file", "is empty, and --tls-private-key-file is not: both are needed")
	}
	if s.AdminListen != "" {
		return checkAdmin(s.AdminListen)
	}
	return nil
}

// checkStore checks the options of the store and of what is applied to it.
func (s *settings) checkStore() error {
	if err := checkDataDir(s.DataDir); err != nil {
		return err
	}
	for _, p := range s.Manifests {
		if _, err := os.Stat(p); err != nil {
			return bad("manifests", "%v", err)
		}
	}
	if err := checkNATS(s.NATSURL, s.NATS); err != nil {
		return err
	}
	if s.NATSReplicas < 0 || s.NATSReplicas > replicas.Max {
		return bad("nats-replicas", "%d is not between 0 and %d", s.NATSReplicas, replicas.Max)
	}
	if s.NATSMaxBytes != "" {
		quantity, err := resource.ParseQuantity(s.NATSMaxBytes)
		if err != nil || quantity.Value() < minNATSBytes {
			return bad("nats-max-bytes", "%q is not a size such as 2Gi, or is less than 16Mi", s.NATSMaxBytes)
		}
		s.natsMaxBytes = quantity.Value()
	}
	for flag, isGiven := range map[string]bool{"nats-replicas": s.NATSReplicas != 0, "nats-max-bytes": s.NATSMaxBytes != ""} {
		if isGiven && s.NATSURL == "" {
			return bad(flag, "%s", needsURL)
		}
	}
	return nil
}

// checkNetworks parses the options about trusted proxies and fetching.
func (s *settings) checkNetworks() error {
	for _, p := range s.TrustedProxies {
		prefix, err := netaddr.ParsePrefix(p)
		if err != nil {
			return bad("trusted-proxies", "%v", err)
		}
		s.proxies = append(s.proxies, prefix)
	}
	var err error
	if s.allowFetch, err = egress.Listed("--allow-fetch", s.AllowFetch); err != nil {
		return bad("allow-fetch", "%v", err)
	}
	if s.allowImages, err = egress.PublicAnd("--allow-image-fetch", s.AllowImageFetch); err != nil {
		return bad("allow-image-fetch", "%v", err)
	}
	return nil
}

// checkLimits checks the limits of connections.
func (s *settings) checkLimits() error {
	if s.MaxConnections < 1 {
		return bad("max-connections", "must be at least 1")
	}
	if s.MaxConnectionsPerSource < 0 {
		return bad("max-connections-per-source", "must be at least 0")
	}
	if s.MaxRequestsPerSource < 0 {
		return bad("max-requests-per-source", "must be at least 0")
	}
	return nil
}

// checkBoot parses the options of the boot path.
func (s *settings) checkBoot() (err error) {
	if err := checkAddress("iscsi-listen", s.ISCSIListen); err != nil {
		return err
	}
	if s.Keyring != "" {
		if s.keyring, err = download.ReadKeyring(s.Keyring); err != nil {
			return bad("keyring", "%v", err)
		}
	}
	if s.ISCSIPortal != "" {
		s.portalHost, s.portalPort = ipxe.ParsePortal(s.ISCSIPortal)
		_, ipErr := netaddr.ParseIP(s.portalHost)
		if _, err := netaddr.ParseHostname(s.portalHost); err != nil && ipErr != nil {
			return bad("iscsi-portal", "%q is not an address with an optional port", s.ISCSIPortal)
		}
	}
	if s.HTTPURL == "" {
		return nil
	}
	s.HTTPURL = strings.TrimSuffix(s.HTTPURL, "/")
	u, err := url.Parse(s.HTTPURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return bad("http-url", "not a URL such as http://192.168.10.2:8082")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return bad("http-url", "has more than scheme, host and path: want a URL such as http://192.168.10.2:8082")
	}
	if _, err := ipxe.Boot(s.HTTPURL); err != nil {
		return bad("http-url", "%v", err)
	}
	return nil
}
