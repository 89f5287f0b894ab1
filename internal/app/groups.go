package app

import (
	"strings"
	"time"

	prometheus "github.com/prometheus/common/model"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/option"
	"glowplug/internal/store/boots"
)

// Listeners are the addresses that are served, and the certificate of HTTPS.
type Listeners struct {
	Listen        []string
	ListenTLS     string
	AdminListen   string
	MetricsListen string
	Console       bool // is served where the API is
	TLSSANs       []string
	TLSCert       string
	TLSKey        string
}

func (o *Listeners) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.Listen, "listen", []string{":8082"},
		"address of plain HTTP (repeatable: port 80 on the PXE network, say)")
	fs.StringVar(&o.ListenTLS, "listen-tls", ":8443", "address of HTTPS; empty: none")
	fs.StringSliceVar(&o.TLSSANs, "tls-san", nil, "further name or address in the server's certificate (repeatable)")
	fs.StringVar(&o.TLSCert, "tls-cert-file", "", "PEM file of a certificate of your own for HTTPS, followed by those "+
		"of its CAs; read again when it changes (default: one of the server's own CA)")
	fs.StringVar(&o.TLSKey, "tls-private-key-file", "", "PEM file of the key of --tls-cert-file")
	fs.StringVar(&o.AdminListen, adminFlag, "", "loopback address, as 127.0.0.1:8081, or unix:PATH,"+
		" where root and the user that the server runs as use the API without a credential")
	fs.BoolVar(&o.Console, "console", true, "serve the web console at /console/")
	fs.StringVar(&o.MetricsListen, "metrics-listen", "",
		"address of plain HTTP that serves /metrics and health alone; /metrics is not served elsewhere then (default: "+
			"every listener serves it)")
}

// Access has the flags of users, of the identity of machines, and of downloads for a user.
type Access struct {
	AllowInsecureAPI bool
	ClientCAFile     string
	TokenAuthFile    string
	// AuthenticationConfig is a file of OpenID Connect issuers.
	AuthenticationConfig string
	Metrics              string // who may read them

	TrustedProxies    []string
	IdentityClaims    string
	Neighbors         string
	IsolateNamespaces model.Isolation

	RejectBrokenConfigs bool
	AllowFetch          []string
}

func (o *Access) addFlags(fs *pflag.FlagSet) {
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
	fs.StringVar(&o.Metrics, "metrics", "open",
		"who may read /metrics: open (anybody) or credential (callers who may use the API)")
}

// Boot says what machines are told in boot scripts and kernel arguments.
type Boot struct {
	ISCSIListen string
	ISCSIPortal string
	HTTPURL     string
	// ConfigsOverHTTPS has configs served over HTTPS alone.
	ConfigsOverHTTPS bool
	UnknownHosts     string
}

func (o *Boot) addFlags(fs *pflag.FlagSet) {
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
}

// Images are the files that machines read, and the streams of CoreOS.
type Images struct {
	ISODir          string
	Keyring         string
	AllowImageFetch []string

	CoreOSConfigMap       string
	CoreOSConfigMapStream string
	StreamsAlias          []string
	StreamsDir            string
	AssetsDir             string
}

func (o *Images) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.AllowImageFetch, "allow-image-fetch", nil,
		"address or CIDR that images may be downloaded from besides public addresses, such as 10.0.0.0/8 (repeatable)")
	fs.StringVar(&o.ISODir, "iso-dir", "", "folder of the ISO files that machines boot; iSCSI is served only with one")
	fs.StringVar(&o.Keyring, "keyring", "",
		"file of OpenPGP public keys that images of streams have to be signed with (default: their SHA-256 is enough)")
	fs.StringVar(&o.CoreOSConfigMap, "coreos-configmap", "openshift-machine-config-operator/coreos-bootimages",
		"ConfigMap, as namespace/name, that shows the current release of a CoreOS stream; empty: none")
	fs.StringVar(&o.CoreOSConfigMapStream, "coreos-configmap-stream", "",
		"stream that the ConfigMap shows (default: the one it showed before, at first the one imported first)")
	fs.StringSliceVar(&o.StreamsAlias, "streams-alias", nil,
		"further path of a stream's metadata, as /pub/openshift-v4/dependencies/rhcos-4.8.json=rhcos-4.8 (repeatable)")
	fs.StringVar(&o.StreamsDir, "streams-dir", "",
		"folder of CoreOS images, as coreos mirror fills it, served under /streams/artifacts/")
	fs.StringVar(&o.AssetsDir, "assets-dir", "", "folder of files that every machine may read, served under /assets/")
}

// History says how long boots are kept, and when one is stuck.
type History struct {
	KeepBoots        string // a duration of Prometheus, as 90d
	KeepBootsBytes   string // a quantity
	KeepBootsPerHost int64
	BootStepTimeout  time.Duration
}

func (o *History) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.KeepBoots, "keep-boots", "90d", "how long the earlier boots of hosts are kept, as 12h, 90d or 1y; "+
		"the newest boot of a host is kept as long as the host")
	fs.StringVar(&o.KeepBootsBytes, "keep-boots-bytes", "2GiB", "room that earlier boots may take: the oldest are removed")
	fs.DurationVar(&o.BootStepTimeout, "boot-step-timeout", 30*time.Minute, "time without a further step after which a boot "+
		"is stuck (the condition BootProgressing of its host); the annotation "+v1.AnnotationStepTimeout+" of an image "+
		"overrides it")
	fs.Int64Var(&o.KeepBootsPerHost, "keep-boots-per-host", 200, "earlier boots of one host that are kept")
}

// limits returns the limits of the history.
func (o *History) limits() (l boots.Limits, err error) {
	age, err := prometheus.ParseDuration(o.KeepBoots)
	if err != nil || age <= 0 {
		return l, option.Bad("keep-boots", "%q is not a duration such as 12h, 90d or 1y", o.KeepBoots)
	}
	size, err := resource.ParseQuantity(strings.TrimSuffix(o.KeepBootsBytes, "B"))
	if err != nil || size.Value() < minHistory {
		return l, option.Bad("keep-boots-bytes", "%q is not a size such as 2GiB, or is less than 1MiB", o.KeepBootsBytes)
	}
	if o.BootStepTimeout < v1.MinStepTimeout {
		return l, option.Bad("boot-step-timeout", "must be at least %s", v1.MinStepTimeout)
	}
	if o.KeepBootsPerHost < 1 {
		return l, option.Bad("keep-boots-per-host", "must be at least 1")
	}
	return boots.Limits{Age: time.Duration(age), Bytes: size.Value(), PerHost: o.KeepBootsPerHost}, nil
}

// minHistory is the least --keep-boots-bytes.
const minHistory = 1 << 20

// Limits bound what one source, and all together, may take of the listeners.
type Limits struct {
	MaxConnections          int
	MaxConnectionsPerSource int
	// MaxRequestsPerSource is in a second.
	MaxRequestsPerSource int
}

func (o *Limits) addFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.MaxConnections, "max-connections", 16384, "open connections of each listener at most")
	fs.IntVar(&o.MaxConnectionsPerSource, "max-connections-per-source", 64, "open connections of one IPv4 address"+
		" or IPv6 /64 at each HTTP listener at most, trusted proxies aside; 0: no such bound")
	fs.IntVar(&o.MaxRequestsPerSource, "max-requests-per-source", 1000, "requests a second of one IPv4 address or"+
		" IPv6 /64 at most, of machines and of others each, and new connections, trusted proxies aside; 0: no such"+
		" bound")
}
