package v1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StreamRelease is one release of a CoreOS stream: the stream metadata document
// that lists its images. Its name is always {stream}-{release}, so that a release
// of a stream is kept once.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type StreamRelease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// spec is the release and its document.
	Spec StreamReleaseSpec `json:"spec"`
	// status is what the document lists, and whether it is the one that is shown.
	// Written by the server alone.
	// +optional
	Status StreamReleaseStatus `json:"status,omitempty"`
}

// StreamReleaseSpec is a release and its document.
type StreamReleaseSpec struct {
	// stream is the name that the stream is kept under, "stable" or "rhcos-4.8"
	// say. The document may call itself otherwise.
	Stream string `json:"stream"`
	// release is the release's version, such as 36.20221014.3.1.
	Release string `json:"release"`
	// document is the stream metadata as JSON. It is served as it stands, to the
	// byte; what this server does not know in it is kept.
	Document string `json:"document"`
	// maxIgnition is the newest Ignition spec version that the release reads, such
	// as 3.4.0; empty: what is known of the release by its version.
	// +optional
	MaxIgnition string `json:"maxIgnition,omitempty"`
	// current makes this the stream's current release, whatever was imported later,
	// until it is set to false: a way back. Of several the newest counts.
	// +optional
	Current bool `json:"current,omitempty"`
	// mirrors are the URLs of folders that "glowplug coreos mirror" has filled, in
	// the order in which they are tried, before the locations of the document. At most
	// 1,000.
	// +optional
	// +listType=atomic
	Mirrors []string `json:"mirrors,omitempty"`
}

// StreamReleaseStatus is what a document lists.
type StreamReleaseStatus struct {
	// current tells whether this is the release of its stream that is shown and
	// followed: the one that spec.current holds fast, else the one whose document
	// was last modified last.
	// +optional
	Current bool `json:"current,omitempty"`
	// lastModified is when the document says that it was made.
	// +optional
	LastModified *metav1.Time `json:"lastModified,omitempty"`
	// documentHash is the document's hash, "sha256:" and hex digits: also its ETag.
	// +optional
	DocumentHash string `json:"documentHash,omitempty"`
	// documentSize is the document's size in bytes.
	// +optional
	DocumentSize int64 `json:"documentSize,omitempty"`
	// architectures are what the document lists for each architecture.
	// +optional
	// +listType=map
	// +listMapKey=name
	Architectures []StreamArchitecture `json:"architectures,omitempty"`
	// observedGeneration is the generation that the status is of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// StreamArchitecture is what a document lists for an architecture.
type StreamArchitecture struct {
	// name is the architecture, such as x86_64.
	Name string `json:"name"`
	// artifacts are its images, each as artifact/format, such as metal/iso.
	// +optional
	// +listType=atomic
	Artifacts []string `json:"artifacts,omitempty"`
}

// StreamReleaseList is a list of StreamReleases.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type StreamReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []StreamRelease `json:"items"`
}

// StreamReleaseName is the name of the object that keeps a release of a stream.
func StreamReleaseName(stream, release string) string {
	return strings.ToLower(strings.NewReplacer("_", "-", "+", "-", "~", "-").Replace(stream + "-" + release))
}
