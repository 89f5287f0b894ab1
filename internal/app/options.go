package app

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/ipxe"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/egress"
	"glowplug/internal/image/download"
	"glowplug/internal/serve/machine"
	"glowplug/internal/store/natsd"
	"glowplug/internal/store/replicas"
)

// Options is what `glowplug serve` can be told. Each field is a flag and an
// environment variable; docs/reference/commands.md is generated from the flags.
type Options struct {
	// DataDir holds the embedded store, the record of the store's identity, the
	// certificates and admin.kubeconfig.
	DataDir string
	// Listen are the addresses of plain HTTP.
	Listen []string
	// ListenTLS is the address of HTTPS; empty: none.
	ListenTLS string
	// TLSSANs are further names and addresses in the server's certificate.
	TLSSANs []string
	// Manifests are files and folders applied at each start.
	Manifests []string
	// NATSURL is an external NATS server or cluster; empty: the embedded store.
	NATSURL string
	// NATS is how NATSURL is reached: --nats-creds and the other files.
	NATS natsd.Access
	// NATSReplicas is how many servers of NATSURL's cluster hold each bucket; 0: three
	// where it has that many, else one.
	NATSReplicas int
	// NATSMaxBytes is what the store may take of NATSURL, as a Kubernetes quantity;
	// empty: what the account may.
	NATSMaxBytes string

	// AdminListen is the address of the admin listener, a loopback address or
	// unix:PATH: the API without a credential, for root and the server's own user;
	// empty: none.
	AdminListen string
	// AllowInsecureAPI serves the API over plain HTTP to other addresses than loopback.
	AllowInsecureAPI bool
	// ClientCAFile holds CAs whose client certificates are accepted besides the own CA's.
	ClientCAFile string
	// TokenAuthFile is a CSV of static tokens: token,user,uid,"group,group".
	TokenAuthFile string

	// TrustedProxies are CIDRs whose X-Forwarded-For is believed.
	TrustedProxies []string
	// IdentityClaims is verify, trust or deny.
	IdentityClaims string
	// Neighbors is auto, enforce or off.
	Neighbors string
	// IsolateNamespaces offers a host only the configs of its own namespace.
	IsolateNamespaces bool

	// AllowFetch are hosts and CIDRs that a config's references may be fetched from, to
	// show what a machine ends up with; empty: nothing is fetched.
	AllowFetch []string
	// AllowImageFetch are addresses and CIDRs that images may be downloaded from besides
	// public addresses.
	AllowImageFetch []string

	// ISODir holds the ISO files of images; empty: iSCSI is not served.
	ISODir string
	// Keyring is a file of OpenPGP keys; empty: signatures are not looked at.
	Keyring string
	// ISCSIListen is the address of the iSCSI target.
	ISCSIListen string
	// ISCSIPortal is the address that machines are told for iSCSI; empty: the one
	// that they reached this server at.
	ISCSIPortal string
	// HTTPURL is this server as machines reach it; empty: by the address that they
	// reached it at.
	HTTPURL string
	// UnknownHosts is what unknown machines boot: exit, menu or default.
	UnknownHosts string

	// CoreOSConfigMap is the ConfigMap, as namespace/name, that shows the current
	// release of a CoreOS stream; empty: none.
	CoreOSConfigMap string
	// CoreOSConfigMapStream is the stream that it shows; empty: the one that it
	// showed before, at first the one that was imported first.
	CoreOSConfigMapStream string
	// StreamsAlias are further paths of streams, each as path=stream.
	StreamsAlias []string
	// StreamsDir is a mirror's folder of CoreOS images; empty: none are served.
	StreamsDir string

	// Metrics says who may read /metrics: open (anybody) or credential (callers who may
	// use the API).
	Metrics string
	// MetricsListen is an address that serves /metrics, and health, alone; empty: every
	// listener serves them.
	MetricsListen string

	// MaxConnections bounds the open connections of each listener.
	MaxConnections int
	// MaxConnectionsPerSource bounds those of HTTP that one source has open: an IPv4
	// address, or an IPv6 /64; 0: no bound.
	MaxConnectionsPerSource int
	// LogLevel is debug, info, warn or error.
	LogLevel string
	// LogFormat is text or json.
	LogFormat string
}

// AddFlags declares the flags with their defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.DataDir, "data-dir", "./glowplug-data",
		"folder of the embedded store, the certificates and admin.kubeconfig")
	fs.StringSliceVar(&o.Listen, "listen", []string{":8082"},
		"address of plain HTTP (repeatable: port 80 on the PXE network, say)")
	fs.StringVar(&o.ListenTLS, "listen-tls", ":8443", "address of HTTPS; empty: none")
	fs.StringSliceVar(&o.TLSSANs, "tls-san", nil, "further name or address in the server's certificate (repeatable)")
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
	fs.StringSliceVar(&o.TrustedProxies, "trusted-proxies", nil,
		"addresses or CIDRs of proxies whose X-Forwarded-For is believed (repeatable)")
	fs.StringVar(&o.IdentityClaims, "identity-claims", "verify",
		"how far a machine's claims (?mac=, ?hostname=, …) are believed: verify, trust or deny")
	fs.StringVar(&o.Neighbors, "neighbors", "auto", "use of the kernel's neighbour table: auto, enforce or off")
	fs.BoolVar(&o.IsolateNamespaces, "isolate-namespaces", false, "offer a host only the configs of its own namespace")
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
		"URL of this server as machines reach it (default: by the address they reached it at)")
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
	fs.StringVar(&o.Metrics, "metrics", "open",
		"who may read /metrics: open (anybody) or credential (callers who may use the API)")
	fs.StringVar(&o.MetricsListen, "metrics-listen", "",
		"address of plain HTTP that serves /metrics and health alone; /metrics is not served elsewhere then (default: "+
			"every listener serves it)")
	fs.IntVar(&o.MaxConnections, "max-connections", 16384, "open connections of each listener at most")
	fs.IntVar(&o.MaxConnectionsPerSource, "max-connections-per-source", 64, "open connections of one IPv4 address"+
		" or IPv6 /64 at each HTTP listener at most, trusted proxies aside; 0: no such bound")
	fs.StringVar(&o.LogLevel, "log-level", "info", "debug, info, warn or error")
	fs.StringVar(&o.LogFormat, "log-format", "text", "text or json")
}

// OptionError is an option that cannot be used; it names the flag.
type OptionError struct {
	Flag   string
	Reason string
}

func (e *OptionError) Error() string { return "--" + e.Flag + ": " + e.Reason }

// settings is Options, checked and parsed.
type settings struct {
	Options
	proxies   []netip.Prefix
	claims    identity.Mode
	neighbors identity.NeighborMode
	level     slog.Level
	// allowFetch is --allow-fetch, allowImages --allow-image-fetch.
	allowFetch, allowImages egress.Policy
	// natsMaxBytes is --nats-max-bytes; 0 without it.
	natsMaxBytes int64
	// keyring is --keyring; nil without it.
	keyring *download.Keyring
	// portalHost and portalPort are --iscsi-portal.
	portalHost string
	portalPort uint16
	// mapNamespace and mapName are --coreos-configmap, aliases --streams-alias.
	mapNamespace, mapName string
	aliases               map[string]string
}

var (
	claimModes    = map[string]identity.Mode{"verify": identity.Verify, "trust": identity.Trust, "deny": identity.Deny}
	neighborModes = map[string]identity.NeighborMode{"auto": identity.NeighborsAuto, "enforce": identity.NeighborsEnforce,
		"off": identity.NeighborsOff}
)

// minNATSBytes is the least that --nats-max-bytes may be: the reserves, and a config.
const minNATSBytes = 16 << 20

// check parses the options. Its error names the first flag that cannot be used.
func (o Options) check() (*settings, error) {
	s := &settings{Options: o}
	for _, check := range []func() error{
		s.checkListen, s.checkStore, s.checkIdentity, s.checkFetch, s.checkBoot, s.checkStreams, s.checkLimits,
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

// checkAddress checks an address to listen on. An empty one is valid.
func checkAddress(flag, address string) error {
	if address == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return bad(flag, "%q is not an address: want host:port or :port", address)
	}
	return nil
}

// checkListen parses the options of the listeners.
func (s *settings) checkListen() error {
	if len(s.Listen) == 0 && s.ListenTLS == "" {
		return bad("listen", "is empty and so is --listen-tls: nothing would be served")
	}
	for _, a := range s.Listen {
		if a == "" {
			return bad("listen", "an address is empty: want host:port or :port")
		}
		if err := checkAddress("listen", a); err != nil {
			return err
		}
	}
	if err := checkAddress("listen-tls", s.ListenTLS); err != nil {
		return err
	}
	if err := checkAddress("metrics-listen", s.MetricsListen); err != nil {
		return err
	}
	if s.Metrics != metricsOpen && s.Metrics != metricsCredential {
		return bad("metrics", "%q is neither open nor credential", s.Metrics)
	}
	if s.AdminListen != "" {
		return checkAdmin(s.AdminListen)
	}
	return nil
}

// checkStore parses the options of the store and of what is applied to it.
func (s *settings) checkStore() error {
	if s.DataDir == "" {
		return bad("data-dir", "is empty: name the folder that holds the store")
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
	return nil
}

// checkIdentity parses the options about who sends a request.
func (s *settings) checkIdentity() error {
	for _, p := range s.TrustedProxies {
		prefix, err := netaddr.ParsePrefix(p)
		if err != nil {
			return bad("trusted-proxies", "%v", err)
		}
		s.proxies = append(s.proxies, prefix)
	}
	var ok bool
	if s.claims, ok = claimModes[s.IdentityClaims]; !ok {
		return bad("identity-claims", "%q is none of verify, trust, deny", s.IdentityClaims)
	}
	if s.neighbors, ok = neighborModes[s.Neighbors]; !ok {
		return bad("neighbors", "%q is none of auto, enforce, off", s.Neighbors)
	}
	return nil
}

// checkFetch parses the options about what the server may fetch.
func (s *settings) checkFetch() error {
	var err error
	if s.allowFetch, err = egress.Listed("--allow-fetch", s.AllowFetch); err != nil {
		return bad("allow-fetch", "%v", err)
	}
	if s.allowImages, err = egress.PublicAnd("--allow-image-fetch", s.AllowImageFetch); err != nil {
		return bad("allow-image-fetch", "%v", err)
	}
	return nil
}

// checkLimits parses the limits of connections and the options of the log.
func (s *settings) checkLimits() error {
	if s.MaxConnections < 1 {
		return bad("max-connections", "must be at least 1")
	}
	if s.MaxConnectionsPerSource < 0 {
		return bad("max-connections-per-source", "must be at least 0")
	}
	if err := s.level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return bad("log-level", "%q is none of debug, info, warn, error", s.LogLevel)
	}
	if s.LogFormat != "text" && s.LogFormat != "json" {
		return bad("log-format", "%q is neither text nor json", s.LogFormat)
	}
	return nil
}

// checkBoot parses the options of the boot path.
func (s *settings) checkBoot() error {
	if _, _, err := net.SplitHostPort(s.ISCSIListen); err != nil {
		return bad("iscsi-listen", "%q is not an address: want host:port or :port", s.ISCSIListen)
	}
	if s.Keyring != "" {
		keys, err := download.ReadKeyring(s.Keyring)
		if err != nil {
			return bad("keyring", "%v", err)
		}
		s.keyring = keys
	}
	if s.ISCSIPortal != "" {
		s.portalHost, s.portalPort = ipxe.ParsePortal(s.ISCSIPortal)
		_, ipErr := netaddr.ParseIP(s.portalHost)
		if _, err := netaddr.ParseHostname(s.portalHost); err != nil && ipErr != nil {
			return bad("iscsi-portal", "%q is not an address with an optional port", s.ISCSIPortal)
		}
	}
	switch s.UnknownHosts {
	case machine.UnknownExit, machine.UnknownMenu, machine.UnknownDefault:
	default:
		return bad("unknown-hosts", "%q is none of exit, menu, default", s.UnknownHosts)
	}
	return checkHTTPURL(s.HTTPURL)
}

// checkHTTPURL checks the URL of this server in boot scripts. An empty one is valid.
func checkHTTPURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return bad("http-url", "not a URL such as http://192.168.10.2:8082")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return bad("http-url", "has more than scheme, host and path: want a URL such as http://192.168.10.2:8082")
	}
	if _, err := ipxe.Boot(strings.TrimSuffix(text, "/")); err != nil {
		return bad("http-url", "%v", err)
	}
	return nil
}
