package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Values of IgnitionConfigSpec.Type.
const (
	TypeIgnition  = "ignition"
	TypeKickstart = "kickstart"
)

// Values of IgnitionConfigSpec.Format.
const (
	FormatButane    = "butane"
	FormatIgnition  = "ignition"
	FormatKickstart = "kickstart"
)

// Values of IgnitionConfigStatus.Phase and ISCSICdromStatus.Phase.
const (
	PhasePending   = "Pending"
	PhaseReady     = "Ready"
	PhaseError     = "Error"
	PhaseUploading = "Uploading"
)

// MaxConfigBytes bounds spec.config: 2 MiB of source.
const MaxConfigBytes = 2 << 20

// LabelRole is the metadata label that a ?role= request is matched with.
const LabelRole = "role"

// IgnitionConfig is an Ignition or Kickstart config and the rule that says which
// machines are given it.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type IgnitionConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// spec is the source of the config and the machines that it is for.
	Spec IgnitionConfigSpec `json:"spec"`
	// status is what the server made of the source. Written by the server alone.
	// +optional
	Status IgnitionConfigStatus `json:"status,omitempty"`

	// Compiled is the last good compilation. It is stored with the object and
	// never shown in an answer of the API.
	Compiled *Compiled `json:"-"`
}

// IgnitionConfigSpec is a config's source and selector.
type IgnitionConfigSpec struct {
	// type is what the config configures: "ignition" or "kickstart".
	Type string `json:"type"`
	// format is the language of the source: "butane" (compiled here, strictly),
	// "ignition" (JSON) or "kickstart".
	Format string `json:"format"`
	// config is the source itself, at most 2 MiB.
	Config string `json:"config"`
	// kickstartVersion is the installer that a kickstart is for, such as "RHEL10" or
	// "F43", against whose commands it is checked; the newest Fedora where it is not
	// given. What is found is a warning, never an error.
	// +optional
	KickstartVersion string `json:"kickstartVersion,omitempty"`
	// template makes a Go text/template of the source: it is rendered for each
	// host, and what comes of it is compiled.
	// +optional
	Template bool `json:"template,omitempty"`
	// layers names other configs of the namespace, at most 32, over which this one
	// is merged by Ignition's own rules: the first lies lowest. What is merged is
	// what each of them is served as, its own layers included. For type ignition.
	// +optional
	// +listType=atomic
	Layers []LayerReference `json:"layers,omitempty"`
	// selector says which machines are given this config. Its fields are
	// alternatives: one that holds is enough. An empty selector matches no
	// machine by itself; such a config is served when asked for with ?role=.
	// +optional
	Selector IgnitionConfigSelector `json:"selector,omitempty"`
}

// MaxLayers bounds spec.layers.
const MaxLayers = 32

// LayerReference names a config that another is merged over.
type LayerReference struct {
	// name is that of an IgnitionConfig of type ignition in the same namespace.
	Name string `json:"name"`
}

// IgnitionConfigSelector is an OR of its fields, tried in the order MAC, IP,
// hostname, labels, default.
type IgnitionConfigSelector struct {
	// matchLabels selects hosts that carry all of these labels, at most 256.
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// matchHostnames selects hosts by name, in any case; a short name equals
	// the first label of a full one. At most 1,000.
	// +optional
	// +listType=atomic
	MatchHostnames []string `json:"matchHostnames,omitempty"`
	// matchIPs selects hosts by address or CIDR, at most 1,000; the longest prefix wins.
	// +optional
	// +listType=atomic
	MatchIPs []string `json:"matchIPs,omitempty"`
	// matchMACs selects hosts by hardware address, at most 1,000, in any common notation.
	// +optional
	// +listType=atomic
	MatchMACs []string `json:"matchMACs,omitempty"`
	// default makes this config the answer where nothing else matches.
	// +optional
	Default bool `json:"default,omitempty"`
}

// IsEmpty tells whether the selector selects no machine at all.
func (s *IgnitionConfigSelector) IsEmpty() bool {
	return len(s.MatchLabels) == 0 && len(s.MatchHostnames) == 0 &&
		len(s.MatchIPs) == 0 && len(s.MatchMACs) == 0 && !s.Default
}

// IgnitionConfigStatus is what the server made of the source.
type IgnitionConfigStatus struct {
	// phase is Pending (compilation goes on), Ready or Error (the newest source
	// does not compile, or cannot be merged over its layers; the last good
	// compilation is still served). A template is Pending until it has been rendered
	// for all of its hosts, and Error where that fails for one of them; the others
	// are served.
	Phase string `json:"phase"`
	// compiledSize is the size of the compiled config in bytes.
	// +optional
	CompiledSize int64 `json:"compiledSize,omitempty"`
	// configHash is "sha256:" and the hex digest of the compiled config; it is
	// the ETag of the answer.
	// +optional
	ConfigHash string `json:"configHash,omitempty"`
	// lastCompiled is when the served config was compiled, RFC 3339.
	// +optional
	LastCompiled string `json:"lastCompiled,omitempty"`
	// errorMessage says why the newest source does not compile, with line:column.
	// +optional
	ErrorMessage string `json:"errorMessage,omitempty"`
	// observedGeneration is the generation that phase speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// compiledGeneration is the generation whose compilation is served; lower
	// than observedGeneration while an older compilation is served.
	// +optional
	CompiledGeneration int64 `json:"compiledGeneration,omitempty"`
	// ignitionVersion is the spec version of the compiled config.
	// +optional
	IgnitionVersion string `json:"ignitionVersion,omitempty"`
	// layers says what the served config was merged over, the lowest first; empty
	// for a config without layers.
	// +optional
	// +listType=atomic
	Layers []LayerStatus `json:"layers,omitempty"`
	// servable says for each Ignition spec version whether the config can be given
	// in it, the oldest version first. It is empty for a kickstart, and for a moment
	// after the source or a layer has changed.
	// +optional
	// +listType=atomic
	Servable []ServableVersion `json:"servable,omitempty"`
	// hosts says how rendering has gone for the hosts that a template is for; it
	// is absent from a config that is no template.
	// +optional
	Hosts *RenderedHosts `json:"hosts,omitempty"`
	// warnings are findings that do not stop the config from being served.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`
}

// RenderedHosts counts the hosts that a template is for: those that would be given
// it if they asked now.
type RenderedHosts struct {
	// total is the number of hosts.
	Total int64 `json:"total"`
	// ready is the number of hosts that it has been rendered and compiled for.
	Ready int64 `json:"ready"`
	// failed is the number of hosts that it cannot be rendered or compiled for.
	// +optional
	Failed int64 `json:"failed,omitempty"`
	// failures says why, for the first ten of them by namespace and name.
	// +optional
	// +listType=atomic
	Failures []HostFailure `json:"failures,omitempty"`
}

// HostFailure is why a template gives nothing for a host.
type HostFailure struct {
	// host is the BareMetalHost, as namespace/name.
	Host string `json:"host"`
	// message says what is wrong, and on which line of the template or of the
	// rendered text.
	Message string `json:"message"`
}

// LayerStatus is a layer as it was merged.
type LayerStatus struct {
	// name is that of the layer.
	Name string `json:"name"`
	// hash is the configHash of the layer as it was merged. Where the layer has
	// another by now the config is about to be merged anew.
	Hash string `json:"hash"`
	// stale is true where the newest source of the layer did not compile, so that
	// its last good compilation was merged.
	// +optional
	Stale bool `json:"stale,omitempty"`
}

// ServableVersion is an Ignition spec version that a config can be given in, or
// cannot.
type ServableVersion struct {
	// version is the spec version, such as "3.2.0".
	Version string `json:"version"`
	// blockedBy lists the fields of the compiled config that stand in the way of
	// this version, each with the reason; empty where the config can be given in it.
	// +optional
	// +listType=atomic
	BlockedBy []string `json:"blockedBy,omitempty"`
}

// Compiled is a config ready to be served. It is internal: the API shows its
// size, hash and version in the status, never the bytes.
//
// +k8s:openapi-gen=false
type Compiled struct {
	// Artifact is the exact body of the answer; empty where there never was one.
	Artifact []byte `json:"artifact,omitempty"`
	// Hash is "sha256:" and the hex digest of Artifact.
	Hash string `json:"hash,omitempty"`
	// IgnitionVersion is the artifact's spec version; empty for a kickstart.
	IgnitionVersion string `json:"ignitionVersion,omitempty"`
	// Generation is the metadata.generation of the source it was compiled from.
	Generation int64 `json:"generation"`
	// Template is true where Artifact is a template that is yet to be rendered for
	// a host, and compiled.
	Template bool `json:"template,omitempty"`
	// Format is the spec.format of a template, which may be another by now where the
	// newest source is not what is served.
	Format string `json:"format,omitempty"`
	// Own is what the newest source alone compiles to, from which Artifact is made
	// again when a layer changes. It is there where the config has layers and its
	// newest source compiles; Artifact may then still be an older one, or none.
	Own *OwnCompilation `json:"own,omitempty"`
}

// AwaitsHosts reports whether a config is Pending because it is a template that is
// being rendered for its hosts: there is nothing left to compile.
func (c *IgnitionConfig) AwaitsHosts() bool {
	return c.Status.Phase == PhasePending && c.Spec.Template &&
		c.Compiled != nil && c.Compiled.Template && c.Compiled.Generation == c.Generation
}

// OwnCompilation is a config before it is merged over its layers. It is internal,
// as Compiled is.
//
// +k8s:openapi-gen=false
type OwnCompilation struct {
	Artifact        []byte `json:"artifact"`
	IgnitionVersion string `json:"ignitionVersion"`
	// Warnings are the findings of the source.
	Warnings []string `json:"warnings,omitempty"`
}

// IgnitionConfigList is a list of IgnitionConfigs.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type IgnitionConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []IgnitionConfig `json:"items"`
}
