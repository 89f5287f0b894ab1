package v1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StreamRelease is one release of a CoreOS stream: the stream metadata document that lists
// its images. Its name is always {stream}-{release}, so that there is one object for each
// release.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type StreamRelease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// spec is the release and its document.
	Spec StreamReleaseSpec `json:"spec"`
	// status is a summary of the document, and whether the release is the current one.
	// Only the server writes it.
	// +optional
	Status StreamReleaseStatus `json:"status,omitempty"`
}

// StreamReleaseSpec is a release and its document.
type StreamReleaseSpec struct {
	// stream is the name of the stream on this server, such as "stable" or "rhcos-4.8".
	// The document may contain another name.
	Stream string `json:"stream"`
	// release is the version of the release, such as 36.20221014.3.1.
	Release string `json:"release"`
	// document is the stream metadata as JSON. The server serves it byte for byte, with
	// all fields that it does not know.
	Document string `json:"document"`
	// maxIgnition is the newest Ignition spec version that the release supports, such as
	// 3.4.0. If it is empty, the server derives it from the version of the release.
	// +optional
	MaxIgnition string `json:"maxIgnition,omitempty"`
	// current makes this the current release of the stream, until it is set to false, even
	// if newer releases are imported: a rollback. If several releases have it, the newest
	// of them is current.
	// +optional
	Current bool `json:"current,omitempty"`
	// mirrors are URLs of folders that "glowplug coreos mirror" has filled, at most 1,000.
	// The server tries them in this order, before the locations in the document.
	// +optional
	// +listType=atomic
	Mirrors []string `json:"mirrors,omitempty"`
}

// StreamReleaseStatus is a summary of a document.
type StreamReleaseStatus struct {
	// current reports whether this is the current release of its stream: a release with
	// spec.current, or else the one whose document has the latest modification time.
	// +optional
	Current bool `json:"current,omitempty"`
	// lastModified is the modification time in the document.
	// +optional
	LastModified *metav1.Time `json:"lastModified,omitempty"`
	// documentHash is "sha256:" and the hex digest of the document. It is the ETag of the
	// response that serves the document.
	// +optional
	DocumentHash string `json:"documentHash,omitempty"`
	// documentSize is the size of the document in bytes.
	// +optional
	DocumentSize int64 `json:"documentSize,omitempty"`
	// architectures are the architectures in the document, with their images.
	// +optional
	// +listType=map
	// +listMapKey=name
	Architectures []StreamArchitecture `json:"architectures,omitempty"`
	// observedGeneration is the metadata.generation that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// StreamArchitecture lists the images of an architecture.
type StreamArchitecture struct {
	// name is the name of the architecture, such as x86_64.
	Name string `json:"name"`
	// artifacts are the images of the architecture, as artifact/format, such as metal/iso.
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

// StreamReleaseName returns the name of the StreamRelease of a release.
func StreamReleaseName(stream, release string) string {
	return strings.ToLower(strings.NewReplacer("_", "-", "+", "-", "~", "-").Replace(stream + "-" + release))
}
