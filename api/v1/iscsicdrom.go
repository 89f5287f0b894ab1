package v1

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Values of ISCSICdromSpec.Transport.
const (
	TransportISCSI = "iscsi"
	TransportHTTP  = "http"
)

// Values of ISCSICdromSpec.Access.
const (
	AccessAny   = "any"
	AccessHosts = "hosts"
)

// Values of StreamImage.Format.
const (
	FormatISO = "iso"
	FormatPXE = "pxe"
)

// Values of StreamImage.Update.
const (
	UpdatePinned = "pinned"
	UpdateFollow = "follow"
)

// Defaults of StreamImage.
const (
	DefaultArchitecture = "x86_64"
	ArtifactMetal       = "metal"
)

// ConditionUpToDate is False while the served image is not of the release that spec.stream
// asks for, or while there is no image of it yet.
const ConditionUpToDate = "UpToDate"

// ConditionConfigArgument is False while no kernel argument of the image tells its system
// where its config is.
const ConditionConfigArgument = "ConfigArgument"

// ISCSICdrom is an ISO image that machines boot from over the network.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ISCSICdrom struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// spec is the source of the image and how it is served.
	// +optional
	Spec ISCSICdromSpec `json:"spec,omitempty"`
	// status is the state of the image. The server writes it; an administrator can set the
	// release of a stream's image through the subresource.
	// +optional
	Status ISCSICdromStatus `json:"status,omitempty"`
}

// ISCSICdromSpec is the source of an image (isoFile, or url and sha256, or stream, or
// external; at most one of them) and how it is served. An image without a source is
// uploaded.
type ISCSICdromSpec struct {
	// isoFile is the path of a file, relative to the ISO directory of the server.
	// +optional
	ISOFile string `json:"isoFile,omitempty"`
	// url is the URL that the server downloads the image from. It requires sha256.
	// +optional
	URL string `json:"url,omitempty"`
	// sha256 is the expected SHA-256 of the downloaded image, in hex.
	// +optional
	SHA256 string `json:"sha256,omitempty"`
	// stream selects an image of a release of a CoreOS stream, which the server downloads.
	// +optional
	Stream *StreamImage `json:"stream,omitempty"`
	// external is an iSCSI target of another server.
	// +optional
	External *ExternalTarget `json:"external,omitempty"`
	// description is any text, for people.
	// +optional
	Description string `json:"description,omitempty"`
	// version is the version of the image, any text.
	// +optional
	Version string `json:"version,omitempty"`
	// readOnly is true by default. Initiators cannot write to an image, whatever it says.
	// +optional
	ReadOnly *bool `json:"readOnly,omitempty"`
	// kernelArgs are kernel arguments that the server writes into the boot entries of the
	// image, at most 1,000. They are added to the default arguments of the distribution;
	// the same key replaces. Everybody who can read the image can read them, so they must
	// not contain secrets.
	// +optional
	// +listType=atomic
	KernelArgs []string `json:"kernelArgs,omitempty"`
	// defaultKernelArgs is true by default: the server sets the arguments with which the
	// distribution of the image finds its config and its image here. If it is false, only
	// kernelArgs are set.
	// +optional
	DefaultKernelArgs *bool `json:"defaultKernelArgs,omitempty"`
	// ignitionConfig is the IgnitionConfig for hosts that boot this image and that no
	// selector of a config matches by MAC, IP, hostname or labels, as "name" or
	// "namespace/name".
	// +optional
	IgnitionConfig string `json:"ignitionConfig,omitempty"`
	// default makes unknown machines boot this image if the server runs with
	// --unknown-hosts=default. If several images have it, the oldest is used.
	// +optional
	Default bool `json:"default,omitempty"`
	// menu is true (default) if the menu for unknown machines lists the image, with its
	// name and version. The menu requires a server with --unknown-hosts=menu.
	// +optional
	Menu *bool `json:"menu,omitempty"`
	// chap are the credentials that initiators have to log in with.
	// +optional
	CHAP *CHAP `json:"chap,omitempty"`
	// allowedInitiators are the IQNs of the initiators that may log in, at most 1,000. If
	// it is empty, every initiator may.
	// +optional
	// +listType=atomic
	AllowedInitiators []string `json:"allowedInitiators,omitempty"`
	// transport is "iscsi" (default) or "http".
	// +optional
	Transport string `json:"transport,omitempty"`
	// access is "any" (default) if every machine may read the image over iSCSI and HTTP,
	// or "hosts" if only the hosts whose spec.image is this image may.
	// +optional
	Access string `json:"access,omitempty"`
}

// StreamImage selects an image of a release of a CoreOS stream. StreamReleases list the
// images.
type StreamImage struct {
	// name is the name of the stream: spec.stream of its StreamReleases.
	Name string `json:"name"`
	// architecture is x86_64 (default), aarch64, ppc64le or s390x.
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// artifact is "metal" (default).
	// +optional
	Artifact string `json:"artifact,omitempty"`
	// format is "iso" (default), a live ISO image, or "pxe": the kernel, initramfs and
	// root file system as three files, which iPXE boots without a CD-ROM.
	// +optional
	Format string `json:"format,omitempty"`
	// update is "pinned" (default) if the image keeps the release that it had first, or
	// "follow" if it is replaced whenever the stream has another current release.
	// +optional
	Update string `json:"update,omitempty"`
	// release selects a specific release. If it is empty, the current release of the
	// stream is used.
	// +optional
	Release string `json:"release,omitempty"`
}

// WithDefaults returns a copy whose empty fields have their defaults.
func (s StreamImage) WithDefaults() StreamImage {
	s.Architecture = cmp.Or(s.Architecture, DefaultArchitecture)
	s.Artifact = cmp.Or(s.Artifact, ArtifactMetal)
	s.Format = cmp.Or(s.Format, FormatISO)
	s.Update = cmp.Or(s.Update, UpdatePinned)
	return s
}

// SameRelease reports whether two select the same image of the same release, so that a
// release to which one is pinned is valid for the other.
func (s *StreamImage) SameRelease(other *StreamImage) bool {
	if s == nil || other == nil {
		return s == other
	}
	a, b := s.WithDefaults(), other.WithDefaults()
	a.Update, b.Update = "", ""
	return a == b
}

// ExternalTarget is an iSCSI target of another server.
type ExternalTarget struct {
	// portal is the address of the target, with an optional port.
	Portal string `json:"portal"`
	// iqn is the IQN of the target.
	IQN string `json:"iqn"`
	// lun is the logical unit number of the image.
	// +optional
	LUN int32 `json:"lun,omitempty"`
}

// CHAP is a pair of credentials for iSCSI (RFC 7143, section 12.1.3), or the Secret that has them.
type CHAP struct {
	// secretName is the Secret in the namespace of the image that has the credentials, under the
	// names of the fields below or, as in Kubernetes, under node.session.auth.username,
	// node.session.auth.password, node.session.auth.username_in and node.session.auth.password_in.
	// The fields below are empty then.
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// username is the name of the initiator.
	// +optional
	Username string `json:"username,omitempty"`
	// password is the secret of the initiator.
	// +optional
	Password string `json:"password,omitempty"`
	// mutualUsername is the name of the target, for initiators that authenticate the
	// target as well (mutual CHAP). iPXE does so if it is set.
	// +optional
	MutualUsername string `json:"mutualUsername,omitempty"`
	// mutualPassword is the secret of the target. It must differ from password.
	// +optional
	MutualPassword string `json:"mutualPassword,omitempty"`
}

// ISCSICdromStatus is the state of an image.
type ISCSICdromStatus struct {
	// phase is Pending, Uploading, Ready or Error.
	// +optional
	Phase string `json:"phase,omitempty"`
	// isoPath is the path of the image file on the server.
	// +optional
	ISOPath string `json:"isoPath,omitempty"`
	// isoSize is the size of the image in bytes.
	// +optional
	ISOSize int64 `json:"isoSize,omitempty"`
	// sha256 is the SHA-256 of the image in hex. For format pxe it is the digest over the
	// digests of the files.
	// +optional
	SHA256 string `json:"sha256,omitempty"`
	// release is the desired release of the stream. With update "pinned" it does not
	// change any more.
	// +optional
	Release string `json:"release,omitempty"`
	// servedRelease is the release of the image that is served. It differs from release
	// while the server downloads that release.
	// +optional
	ServedRelease string `json:"servedRelease,omitempty"`
	// maxIgnition is the newest Ignition spec version that the image supports. It is empty
	// if the server does not know it for this release.
	// +optional
	MaxIgnition string `json:"maxIgnition,omitempty"`
	// files are the files of an image of format pxe.
	// +optional
	// +listType=map
	// +listMapKey=role
	Files []ImageFile `json:"files,omitempty"`
	// download is the progress of the current download.
	// +optional
	Download *DownloadProgress `json:"download,omitempty"`
	// volumeID is the volume identifier of the ISO 9660 file system.
	// +optional
	VolumeID string `json:"volumeID,omitempty"`
	// distro is the distribution that the server has detected.
	// +optional
	Distro string `json:"distro,omitempty"`
	// architectures are those of the machines that can boot the image, such as x86_64 and
	// aarch64. They are found in the image, or are that of the stream. A machine of another
	// architecture gets the reason instead of the image. If the field is empty, every
	// machine gets the image.
	// +optional
	// +listType=atomic
	Architectures []string `json:"architectures,omitempty"`
	// targetIQN is the IQN of the image's target.
	// +optional
	TargetIQN string `json:"targetIQN,omitempty"`
	// portalIP is the IP address of the iSCSI portal.
	// +optional
	PortalIP string `json:"portalIP,omitempty"`
	// portalPort is the TCP port of the iSCSI portal.
	// +optional
	PortalPort int32 `json:"portalPort,omitempty"`
	// kernelArgsApplied are the kernel arguments in the image as it is served.
	// +optional
	// +listType=atomic
	KernelArgsApplied []string `json:"kernelArgsApplied,omitempty"`
	// ownKernelArgs are the kernel arguments that the boot entries of the image have beside
	// those, if the server sets any.
	// +optional
	// +listType=atomic
	OwnKernelArgs []string `json:"ownKernelArgs,omitempty"`
	// patchedFiles are the files of the image that the server serves with changes.
	// +optional
	// +listType=atomic
	PatchedFiles []string `json:"patchedFiles,omitempty"`
	// errorMessage is the reason why the image is not served, or not up to date.
	// +optional
	ErrorMessage string `json:"errorMessage,omitempty"`
	// conditions are Ready, ConfigArgument and, for an image of a stream, UpToDate.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// subscribers are the initiators that are logged in now.
	// +optional
	// +listType=atomic
	Subscribers []Subscriber `json:"subscribers,omitempty"`
}

// ImageFile is one file of an image of format pxe.
type ImageFile struct {
	// role is kernel, initramfs or rootfs.
	Role string `json:"role"`
	// size is the size of the file in bytes.
	Size int64 `json:"size"`
	// sha256 is the SHA-256 of the file in hex.
	SHA256 string `json:"sha256"`
}

// DownloadProgress is the progress of a download.
type DownloadProgress struct {
	// release is the release that is downloaded, for an image of a stream.
	// +optional
	Release string `json:"release,omitempty"`
	// file is the part that is downloaded: disk, kernel, initramfs or rootfs.
	// +optional
	File string `json:"file,omitempty"`
	// received is the number of bytes received.
	Received int64 `json:"received"`
	// total is the size of the file in bytes, or 0 while it is unknown.
	// +optional
	Total int64 `json:"total,omitempty"`
}

// Subscriber is an initiator that is logged in to an image's target.
type Subscriber struct {
	// name is the BareMetalHost, if the initiator is a known host.
	// +optional
	Name string `json:"name,omitempty"`
	// initiatorIQN is the IQN of the initiator.
	// +optional
	InitiatorIQN string `json:"initiatorIQN,omitempty"`
	// since is the time of the login.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// ISCSICdromList is a list of ISCSICdroms.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ISCSICdromList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []ISCSICdrom `json:"items"`
}

// WantsDefaultKernelArgs reports whether the server sets the default arguments of the
// distribution.
func (s *ISCSICdromSpec) WantsDefaultKernelArgs() bool {
	return s.DefaultKernelArgs == nil || *s.DefaultKernelArgs
}

// MergeKernelArgs returns kernel arguments, such as those of an image, followed by more
// special ones, such as those of a host. An argument whose name the special ones have as
// well is left out, and with a config for the system that is installed that for the live one.
func MergeKernelArgs(general, special []string) []string {
	named := kernelArgNames(special)
	named["ignition.config.url"] = named["ignition.config.url"] || named["coreos.inst.ignition_url"]
	merged := slices.DeleteFunc(slices.Clone(general), func(arg string) bool { return named[kernelArgName(arg)] })
	return append(merged, special...)
}

// HasKernelArg reports whether one of the arguments has the name of another one.
func HasKernelArg(args []string, other string) bool {
	return kernelArgNames(args)[kernelArgName(other)]
}

func kernelArgNames(args []string) map[string]bool {
	names := map[string]bool{}
	for _, arg := range args {
		for word := range strings.FieldsSeq(arg) {
			names[kernelArgName(word)] = true
		}
	}
	return names
}

func kernelArgName(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	return name
}
