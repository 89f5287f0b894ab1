package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

// AnnotationIsland on a Namespace is the mark of an island, a namespace whose configs and images are for its own
// hosts, and whose hosts have no others. The server sets "true" as soon as somebody may write hosts, configs, images
// or Secrets in it, or the Namespace itself, and not in all namespaces, and never removes it. With "false" an
// administrator of all namespaces says that the namespace is none.
const AnnotationIsland = "glowplug.dev/island"

// AnnotationIsolated, "true" on the namespace default, is the mark of a store that an earlier release has isolated:
// all namespaces but default are islands, as with --isolate-namespaces.
const AnnotationIsolated = "glowplug.dev/isolated"

// AnnotationRejectBroken, "true" on an IgnitionConfig or on its Namespace, makes the server
// refuse a write of the config whose source does not compile, with 422. Without it the source
// is stored, with a warning, and the last good one is served.
const AnnotationRejectBroken = "glowplug.dev/reject-broken-configs"

// LabelRole is the metadata label that a ?role= request is matched with.
const LabelRole = "role"

// IgnitionConfig is an Ignition or Kickstart config and a selector for the machines that
// receive it.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type IgnitionConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// spec is the source of the config and the selector for machines.
	Spec IgnitionConfigSpec `json:"spec"`
	// status is the result of the compilation. Only the server writes it.
	// +optional
	Status IgnitionConfigStatus `json:"status,omitempty"`

	// Compiled is the last successful compilation. It is stored with the object, and no
	// response of the API contains it.
	Compiled *Compiled `json:"-"`
}

// IgnitionConfigSpec is the source and the selector of a config.
type IgnitionConfigSpec struct {
	// type is "ignition" or "kickstart".
	Type string `json:"type"`
	// format is the language of the source: "butane" (the server compiles it, in strict
	// mode), "ignition" (JSON) or "kickstart".
	Format string `json:"format"`
	// config is the source, at most 2 MiB.
	Config string `json:"config"`
	// confidential says that the source, and what machines are served of it, has secrets. Users
	// without the verb get on ignitionconfigs/source read <redacted> in config, in the messages of
	// the status and in the annotation of kubectl apply. The result of a config with a confidential
	// layer is confidential too: it needs get on ignitionconfigs/rendered.
	// +optional
	Confidential bool `json:"confidential,omitempty"`
	// kickstartVersion is the version of the installer, such as "RHEL10" or "F43". The
	// server checks the commands of a kickstart against this version, and reports findings
	// as warnings, never as errors. The default is the one that the first line names
	// (#version=RHEL9), or else the newest Fedora release.
	// +optional
	KickstartVersion string `json:"kickstartVersion,omitempty"`
	// template says that the source is a Go text/template. The server renders it for each
	// host and compiles the rendered source.
	// +optional
	Template bool `json:"template,omitempty"`
	// layers are other configs of the namespace, at most 32, onto which this config is
	// merged by the merge rules of Ignition, in the order of the list: this config is
	// merged last and overrides all of them. A layer is merged as it is served, with its
	// own layers. Only for type ignition.
	// +optional
	// +listType=atomic
	Layers []LayerReference `json:"layers,omitempty"`
	// selector selects the machines that receive this config. A machine is selected if at
	// least one field matches. An empty selector matches no machine; such a config is
	// served for requests with ?role=, and to hosts whose image names it, alone.
	// +optional
	Selector IgnitionConfigSelector `json:"selector,omitempty"`
}

// MaxLayers bounds spec.layers.
const MaxLayers = 32

// LayerReference names a config that is a layer of another config.
type LayerReference struct {
	// name is the name of an IgnitionConfig of type ignition in the same namespace.
	Name string `json:"name"`
}

// IgnitionConfigSelector matches a machine if at least one of its fields does. If several
// configs of a namespace match a machine, the order of precedence is MAC, IP, hostname, labels,
// default; docs/reference/matching.md has all rules.
type IgnitionConfigSelector struct {
	// matchLabels selects hosts that have all of these labels, at most 256.
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// matchExpressions selects hosts for which all of these requirements hold, at most 64,
	// as in Kubernetes: with the operators In, NotIn, Exists and DoesNotExist. If
	// matchLabels is set too, both must hold.
	// +optional
	// +listType=atomic
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
	// matchHostnames selects hosts by host name, at most 1,000. Upper and lower case are
	// equal. A short name matches the first label of a fully qualified name.
	// +optional
	// +listType=atomic
	MatchHostnames []string `json:"matchHostnames,omitempty"`
	// matchIPs selects hosts by IP address or CIDR, at most 1,000. The prefix with the fewest
	// host bits takes precedence.
	// +optional
	// +listType=atomic
	MatchIPs []string `json:"matchIPs,omitempty"`
	// matchMACs selects hosts by hardware address, at most 1,000, in any common notation, or
	// by its first 1 to 5 bytes, such as 52:54:00:*. A whole address takes precedence over a
	// prefix, and a longer prefix over a shorter one.
	// +optional
	// +listType=atomic
	MatchMACs []string `json:"matchMACs,omitempty"`
	// default selects every machine that no other config of its type and namespace matches. A default of the
	// host's own namespace goes before the selectors of other namespaces.
	// +optional
	Default bool `json:"default,omitempty"`
}

// IsEmpty reports whether the selector matches no machine.
func (s *IgnitionConfigSelector) IsEmpty() bool {
	return len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 && len(s.MatchHostnames) == 0 &&
		len(s.MatchIPs) == 0 && len(s.MatchMACs) == 0 && !s.Default
}

// IgnitionConfigStatus is the result of compiling a config.
type IgnitionConfigStatus struct {
	// phase is Pending (the newest source is not compiled yet), Ready, or Error (the
	// newest source does not compile, or cannot be merged over its layers; the last
	// successful compilation is still served, if there is one). A template is Pending until it has been
	// rendered for all of its hosts, and Error if rendering fails for one of them; the
	// other hosts are served.
	Phase string `json:"phase"`
	// compiledSize is the size of the compiled config in bytes.
	// +optional
	CompiledSize int64 `json:"compiledSize,omitempty"`
	// configHash is "sha256:" and the hex digest of the compiled config. It is the ETag of
	// the response to a machine.
	// +optional
	ConfigHash string `json:"configHash,omitempty"`
	// lastCompiled is the time at which the served config was compiled, in RFC 3339. For a template it
	// is the time at which the result of its rendering for all its hosts last changed.
	// +optional
	LastCompiled string `json:"lastCompiled,omitempty"`
	// errorMessage is the reason why the newest source does not compile, with line:column, or
	// cannot be merged over its layers. Of a template it also names the hosts that it cannot be
	// rendered for; its phase is Ready where there are others.
	// +optional
	ErrorMessage string `json:"errorMessage,omitempty"`
	// observedGeneration is the metadata.generation that phase and errorMessage describe.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// compiledGeneration is the metadata.generation of the source that is served. It is
	// lower than observedGeneration while an older source is served. For a template it is that of the
	// source that was last rendered for all its hosts; a host for which this source fails may be served an
	// older one.
	// +optional
	CompiledGeneration int64 `json:"compiledGeneration,omitempty"`
	// ignitionVersion is the Ignition spec version of the compiled config.
	// +optional
	IgnitionVersion string `json:"ignitionVersion,omitempty"`
	// layers are the layers of the served config as they were merged, in the order of
	// spec.layers. It is empty for a config without layers.
	// +optional
	// +listType=atomic
	Layers []LayerStatus `json:"layers,omitempty"`
	// servable lists the Ignition spec versions, the oldest first, and whether the config
	// can be converted to them: one entry for consecutive versions of one major version
	// with the same result. It is empty for a kickstart, and until the conversions of the
	// newest compilation are done.
	// +optional
	// +listType=atomic
	Servable []ServableVersions `json:"servable,omitempty"`
	// conditions are Ready, and Stalled while phase is Error.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// hosts counts the hosts of a template and the results of rendering it for them. It is
	// absent if the config is not a template.
	// +optional
	Hosts *RenderedHosts `json:"hosts,omitempty"`
	// warnings are findings in the source. The config is served regardless of them.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`
}

// RenderedHosts counts the hosts of a template, from the objects alone: those that would receive
// it now without a claim, if the server recognises their machines.
type RenderedHosts struct {
	// total is the number of hosts.
	Total int64 `json:"total"`
	// ready is the number of hosts for which the template is rendered and compiled.
	Ready int64 `json:"ready"`
	// failed is the number of hosts for which rendering or compiling fails.
	// +optional
	Failed int64 `json:"failed,omitempty"`
	// failures are the reasons, for the first ten failed hosts by namespace and name.
	// +optional
	// +listType=atomic
	Failures []HostFailure `json:"failures,omitempty"`
}

// HostFailure is the reason why a template cannot be rendered or compiled for a host.
type HostFailure struct {
	// host is the BareMetalHost, as namespace/name.
	Host string `json:"host"`
	// message is the error, with the line of the template or of the rendered source.
	Message string `json:"message"`
}

// LayerStatus is the state in which a layer was merged.
type LayerStatus struct {
	// name is the name of the layer.
	Name string `json:"name"`
	// hash is the configHash of the layer that was merged. If the layer has another
	// configHash now, the server is about to merge the config again.
	Hash string `json:"hash"`
	// stale is true if the newest source of the layer did not compile, so that the last
	// successful compilation of the layer was merged.
	// +optional
	Stale bool `json:"stale,omitempty"`
}

// ServableVersions are Ignition spec versions and whether a config can be converted to them.
type ServableVersions struct {
	// versions are the first and the last spec version, such as "3.0.0-3.6.0", or a single
	// one, such as "2.2.0".
	Versions string `json:"versions"`
	// blockedBy lists the fields of the compiled config that have no equivalent in these
	// versions, each with the reason. It is empty if the config can be converted.
	// +optional
	// +listType=atomic
	BlockedBy []string `json:"blockedBy,omitempty"`
}

// Compiled is a config as it is served. It is internal: the status has its size, hash and
// version, and no response of the API contains the bytes.
//
// +k8s:openapi-gen=false
type Compiled struct {
	// Artifact is the exact body of the response to a machine. It is empty if no source
	// has compiled yet.
	Artifact []byte `json:"artifact,omitempty"`
	// Hash is "sha256:" and the hex digest of Artifact.
	Hash string `json:"hash,omitempty"`
	// IgnitionVersion is the artifact's spec version; empty for a kickstart.
	IgnitionVersion string `json:"ignitionVersion,omitempty"`
	// Generation is the metadata.generation of the source of Artifact.
	Generation int64 `json:"generation"`
	// Template is true if Artifact is a template, which is rendered and compiled for each
	// host.
	Template bool `json:"template,omitempty"`
	// Format is the spec.format of the source of a template. The object may have another
	// format by now, if an older source is served.
	Format string `json:"format,omitempty"`
	// Confidential is true if Artifact was made of a confidential source, or over a confidential
	// layer. The object may not be confidential by now, if an older source is served.
	Confidential bool `json:"confidential,omitempty"`
	// Own is the compilation of the newest source without its layers. The server merges it
	// again when a layer changes. It is set if the config has layers and the newest source
	// compiles; Artifact may be older, or empty, if merging fails.
	Own *OwnCompilation `json:"own,omitempty"`
}

// AwaitsHosts reports whether a config is Pending because it is a template that is
// rendered for its hosts at the moment: there is nothing left to compile.
func (c *IgnitionConfig) AwaitsHosts() bool {
	return c.Status.Phase == PhasePending && c.Spec.Template &&
		c.Compiled != nil && c.Compiled.Template && c.Compiled.Generation == c.Generation
}

// OwnCompilation is the compilation of a config without its layers. It is internal, as
// Compiled is.
//
// +k8s:openapi-gen=false
type OwnCompilation struct {
	Artifact        []byte `json:"artifact"`
	IgnitionVersion string `json:"ignitionVersion"`
	// Warnings are the findings in the source.
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

// ConfidentialFindings stands for what a compiler says of a confidential config, which may quote its
// source.
const ConfidentialFindings = "spec.config has findings, which are confidential: status has them for users with the " +
	"verb get on ignitionconfigs/source"

// OpenMessage returns status.errorMessage, or ConfidentialFindings in place of that of a confidential
// config, for events and logs.
func (c *IgnitionConfig) OpenMessage() string {
	if c.Spec.Confidential && c.Status.ErrorMessage != "" {
		return ConfidentialFindings
	}
	return c.Status.ErrorMessage
}
