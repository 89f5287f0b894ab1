// Package explain says why a machine receives what it does: it explains the decisions of package
// decide, answers inquiries about a machine that does not ask itself, and has the conditions of hosts
// and the advice for authors. It uses no clock, network or disk.
package explain

import "glowplug/internal/domain/ignition"

// Explanation is a decision with its reasons.
type Explanation struct {
	// Endpoint is "ignition" or "kickstart".
	Endpoint string `json:"endpoint"`
	// As is AsMachine or AsBelieved: who asks.
	As     string `json:"as"`
	Client Client `json:"client"`
	// Identity says whether the network confirms who the machine is, and why.
	Identity string `json:"identity"`
	// Named is the host that the inquiry names, as namespace/name; empty where it names none.
	Named string `json:"named,omitempty"`
	// Facts are those that configs are matched with.
	Facts Facts `json:"facts"`
	// Host is the machine, as namespace/name; empty where it is unknown.
	Host string `json:"host,omitempty"`
	// FoundBy is the fact that identifies the host: mac, ip, uuid, hostname, address or neighbor.
	FoundBy string `json:"foundBy,omitempty"`
	// Boot is the boot decision; nil for an unknown machine and a refused one.
	Boot *Boot `json:"boot,omitempty"`
	// Status is the HTTP status of the answer.
	Status int `json:"status"`
	// DependsOnAddress is true where the address of the machine is not known and can change
	// the answer, by a config with matchIPs.
	DependsOnAddress bool `json:"dependsOnAddress,omitempty"`
	// Winner is the config that matched, also where it cannot be served.
	Winner *Winner `json:"winner,omitempty"`
	// Candidates are all configs of any type, first those that match, by their rank.
	// Empty where the request was refused before.
	Candidates []Candidate `json:"candidates"`
	// Hidden is the number of candidates that are left out, since the reader may not read the configs of their
	// namespaces (Reduce).
	Hidden int `json:"hidden,omitempty"`
	// Notices are the events that the request makes.
	Notices []Notice `json:"notices,omitempty"`
	// Error is the body of an answer without a config.
	Error string `json:"error,omitempty"`
	// PlainHTTP says what a request over plain HTTP receives instead of a config, where these are served over
	// HTTPS alone.
	PlainHTTP string `json:"plainHTTP,omitempty"`
	// Others are the answers that other clients receive, where they differ.
	Others []Other `json:"others,omitempty"`
}

// Other is the answer to another client for the same machine.
type Other struct {
	// Client says which one, as the subject of a sentence.
	Client string `json:"client"`
	Answer
}

// Answer is the answer to a client.
type Answer struct {
	// Status is the HTTP status.
	Status int `json:"status"`
	// Config is the config in the answer, as namespace/name, and IgnitionVersion the
	// version in which it is given; empty where there is none.
	Config          string `json:"config,omitempty"`
	IgnitionVersion string `json:"ignitionVersion,omitempty"`
	// Error is the body of an answer without a config.
	Error string `json:"error,omitempty"`
}

// Boot is the boot decision of a host.
type Boot struct {
	// Local is true where it boots its disk.
	Local bool `json:"local"`
	// Image is the ISCSICdrom that it boots, as namespace/name.
	Image string `json:"image,omitempty"`
	// Script is true where it boots its own script, or that of its namespace, and NamespaceScript for the latter.
	Script          bool `json:"script,omitempty"`
	NamespaceScript bool `json:"namespaceScript,omitempty"`
	// Arguments are the kernel arguments of the image for the host: those of its boot entries, then those that are
	// added to each entry, in their order. NoConfig says that none of them tells its system where its config is, or
	// that they ask for another type of config than the host has.
	Arguments []Argument `json:"arguments,omitempty"`
	NoConfig  string     `json:"noConfig,omitempty"`
	// Token is true where the machine needs the token of its boot.
	Token bool `json:"token,omitempty"`
	// State is status.state of the host.
	State string `json:"state"`
	// Release is that of the image, MaxIgnition the newest Ignition version that it reads,
	// where they are known.
	Release     string `json:"release,omitempty"`
	MaxIgnition string `json:"maxIgnition,omitempty"`
	// Skew says that the image cannot read the host's config.
	Skew string `json:"skew,omitempty"`
	// Reason explains the decision. Error says why there is nothing to boot.
	Reason string `json:"reason"`
	Error  string `json:"error,omitempty"`
}

// ScriptName names the script that a host boots: its own, or that of its namespace.
func (e *Boot) ScriptName() string { return ScriptName(e.NamespaceScript) }

// ScriptName names the script of a host, which may be that of its namespace.
func ScriptName(ofNamespace bool) string {
	if ofNamespace {
		return "the script of its namespace"
	}
	return "its own script"
}

// The origins of kernel arguments.
const (
	FromEntry   = "boot entry"
	FromDefault = "default"
	FromImage   = "image"
	FromHost    = "host"
	FromInstall = "installation"
)

// Argument is a kernel argument, and where it is from: the boot entries of the image itself, FromDefault, of
// the distribution, kernelArgs of the image or the host, or those of the installer. In those of a host, ${glowplug}
// stands for the URL of the server.
type Argument struct {
	Argument string `json:"argument"`
	From     string `json:"from"`
}

// Client is the sender of the request.
type Client struct {
	// Address is the client's, as the network shows it.
	Address string `json:"address,omitempty"`
	// Addresses are those that the neighbour table has for the hardware address of the
	// machine, where these are several and nothing else says which one it asks from. Address
	// is the first of them.
	Addresses []string `json:"addresses,omitempty"`
	// Neighbor is its hardware address in the neighbour table.
	Neighbor string `json:"neighbor,omitempty"`
	// OtherMAC is the hardware address that it claims, where that is none of Ethernet.
	OtherMAC string `json:"otherMAC,omitempty"`
	// Believed is true where all claims of the caller hold.
	Believed bool `json:"believed,omitempty"`
	// Accept and UserAgent are its headers. Headers says of which client they are, where
	// the inquiry leaves that to the server.
	Accept    string `json:"accept,omitempty"`
	UserAgent string `json:"userAgent,omitempty"`
	Headers   string `json:"headers,omitempty"`
}

// Facts are those of the machine.
type Facts struct {
	MACs      []string          `json:"macs,omitempty"`
	IPs       []string          `json:"ips,omitempty"`
	Hostnames []string          `json:"hostnames,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Namespace is the host's own, whose configs are preferred.
	Namespace string `json:"namespace,omitempty"`
	// Island is the reason why the host's namespace is an island; empty if it is not an island.
	Island string `json:"island,omitempty"`
	// Role is the requested role, if it was granted.
	Role string `json:"role,omitempty"`
	// ImageConfig is the config that the host's image names.
	ImageConfig string `json:"imageConfig,omitempty"`
}

// Winner is the config that was chosen.
type Winner struct {
	Config          string `json:"config"`
	Tier            string `json:"tier"`
	Hash            string `json:"hash,omitempty"`
	IgnitionVersion string `json:"ignitionVersion,omitempty"`
	// Served is the Ignition version of the answer, where the config was converted;
	// Hash is of that form.
	Served string `json:"served,omitempty"`
	// Stale is true where an older compilation is served.
	Stale bool `json:"stale,omitempty"`
	// Template is true for a template: Hash and Size, in bytes, are of its rendering for
	// the machine, and are left out where that fails.
	Template bool `json:"template,omitempty"`
	Size     int  `json:"size,omitempty"`
	// Layers are those onto which the config was merged, the lowest first.
	Layers []Layer `json:"layers,omitempty"`
	// Origins are the layers of each file, directory, link, unit, user, group, disk,
	// filesystem and kernel argument of a config with layers. The layer that wins is the
	// last. Names are those of configs in the winner's namespace.
	Origins []ignition.Origin `json:"origins,omitempty"`
}

// Ways to ask about a machine.
const (
	// AsMachine asks as the machine itself: the network has to confirm its claims.
	AsMachine = "machine"
	// AsBelieved asks as a caller whose claims are believed, as an administrator is.
	AsBelieved = "believed"
)

// statusOK is the HTTP status of an answer with a config; package fault has the others.
const statusOK = 200

// Outcomes of a candidate.
const (
	OutcomeWinner        = "winner"
	OutcomeLost          = "lost"
	OutcomeNoMatch       = "no match"
	OutcomeNotConsidered = "not considered"
)

// Candidate is the outcome of one config.
type Candidate struct {
	Config string `json:"config"`
	Type   string `json:"type"`
	// Tier is the tier in which it matches; empty where it does not.
	Tier    string `json:"tier,omitempty"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
}

// Notice is an event that the request makes.
type Notice struct {
	Reason string `json:"reason"`
	// Host is the host of the event, as namespace/name; empty: an unknown machine.
	Host    string `json:"host,omitempty"`
	Message string `json:"message"`
}
