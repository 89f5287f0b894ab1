package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// What StreamImage has by default.
const (
	DefaultArchitecture = "x86_64"
	ArtifactMetal       = "metal"
)

// ConditionUpToDate is False while the image that is served, or that there is to
// be, is not of the release of the stream that is asked for.
const ConditionUpToDate = "UpToDate"

// ISCSICdrom is an ISO image that machines boot from over the network.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ISCSICdrom struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// spec is where the image comes from and how it is offered.
	// +optional
	Spec ISCSICdromSpec `json:"spec,omitempty"`
	// status is the state of the image. Written by the server alone.
	// +optional
	Status ISCSICdromStatus `json:"status,omitempty"`
}

// ISCSICdromSpec says where an image comes from (isoFile, or url and sha256, or
// stream, or external; at most one) and how it is offered.
type ISCSICdromSpec struct {
	// isoFile is a file under the server's ISO directory.
	// +optional
	ISOFile string `json:"isoFile,omitempty"`
	// url is where the image is downloaded from; needs sha256.
	// +optional
	URL string `json:"url,omitempty"`
	// sha256 is the hex digest that the downloaded image must have.
	// +optional
	SHA256 string `json:"sha256,omitempty"`
	// stream is the stream of an operating system that the image is downloaded
	// from, by its metadata.
	// +optional
	Stream *StreamImage `json:"stream,omitempty"`
	// external is a target that somebody else serves.
	// +optional
	External *ExternalTarget `json:"external,omitempty"`
	// description is free text.
	// +optional
	Description string `json:"description,omitempty"`
	// version is the image's version, free text.
	// +optional
	Version string `json:"version,omitempty"`
	// readOnly is true: the image is never written.
	// +optional
	ReadOnly *bool `json:"readOnly,omitempty"`
	// kernelArgs are set on the image's boot entries, at most 1,000; empty: the distro's
	// default. Whoever may read the image can read them: no secrets here.
	// +optional
	// +listType=atomic
	KernelArgs []string `json:"kernelArgs,omitempty"`
	// ignitionConfig is the IgnitionConfig for hosts that boot this image and
	// match nothing more specific, as "name" or "namespace/name".
	// +optional
	IgnitionConfig string `json:"ignitionConfig,omitempty"`
	// default makes this the image of unknown machines where the server has
	// --unknown-hosts=default; the oldest wins.
	// +optional
	Default bool `json:"default,omitempty"`
	// menu is whether unknown machines are shown the image where the server has
	// --unknown-hosts=menu; true (default): they are, by its name and version.
	// +optional
	Menu *bool `json:"menu,omitempty"`
	// chap asks initiators for a name and a password.
	// +optional
	CHAP *CHAP `json:"chap,omitempty"`
	// allowedInitiators are the initiator IQNs that may log in, at most 1,000; empty: all.
	// +optional
	// +listType=atomic
	AllowedInitiators []string `json:"allowedInitiators,omitempty"`
	// transport is "iscsi" (default) or "http".
	// +optional
	Transport string `json:"transport,omitempty"`
	// access is who may read the image, over iSCSI and over HTTP: "any" (default), any
	// machine, or "hosts", those hosts alone whose spec.image it is.
	// +optional
	Access string `json:"access,omitempty"`
}

// StreamImage is an image of a release of a CoreOS stream, as a StreamRelease
// lists it.
type StreamImage struct {
	// name is the stream, as spec.stream of its StreamReleases says.
	Name string `json:"name"`
	// architecture is x86_64 (default), aarch64, ppc64le or s390x.
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// artifact is "metal" (default).
	// +optional
	Artifact string `json:"artifact,omitempty"`
	// format is "iso" (default), a live image, or "pxe": its kernel, initramfs and
	// root file system one by one, which iPXE starts without a CD-ROM.
	// +optional
	Format string `json:"format,omitempty"`
	// update is "pinned" (default: the image stays on the release that it was first
	// of) or "follow": it takes the current release of the stream.
	// +optional
	Update string `json:"update,omitempty"`
	// release is a certain release; empty: the stream's current one.
	// +optional
	Release string `json:"release,omitempty"`
}

// WithDefaults gives it with what it has by default.
func (s StreamImage) WithDefaults() StreamImage {
	for field, value := range map[*string]string{
		&s.Architecture: DefaultArchitecture, &s.Artifact: ArtifactMetal, &s.Format: FormatISO, &s.Update: UpdatePinned,
	} {
		if *field == "" {
			*field = value
		}
	}
	return s
}

// SameRelease tells whether two name the same release, whichever that is, so that
// what one was pinned to holds for the other.
func (s *StreamImage) SameRelease(other *StreamImage) bool {
	if s == nil || other == nil {
		return s == other
	}
	a, b := s.WithDefaults(), other.WithDefaults()
	a.Update, b.Update = "", ""
	return a == b
}

// ExternalTarget is an iSCSI target that another server offers.
type ExternalTarget struct {
	// portal is the target's address, with an optional port.
	Portal string `json:"portal"`
	// iqn is the target's name.
	IQN string `json:"iqn"`
	// lun is the logical unit's number.
	// +optional
	LUN int32 `json:"lun,omitempty"`
}

// CHAP is an iSCSI credential.
type CHAP struct {
	// username is the name that the initiator logs in with.
	Username string `json:"username"`
	// password is the secret that it proves to know.
	Password string `json:"password"`
	// mutualUsername is the name by which the target answers initiators that ask it to
	// prove itself, too; iPXE then does.
	// +optional
	MutualUsername string `json:"mutualUsername,omitempty"`
	// mutualPassword is the secret that the target proves to know; it is not password.
	// +optional
	MutualPassword string `json:"mutualPassword,omitempty"`
}

// ISCSICdromStatus is the state of an image.
type ISCSICdromStatus struct {
	// phase is Pending, Uploading, Ready or Error.
	// +optional
	Phase string `json:"phase,omitempty"`
	// isoPath is the image file.
	// +optional
	ISOPath string `json:"isoPath,omitempty"`
	// isoSize is the image's size in bytes.
	// +optional
	ISOSize int64 `json:"isoSize,omitempty"`
	// sha256 is the image's hex digest; of format pxe, one over those of its files.
	// +optional
	SHA256 string `json:"sha256,omitempty"`
	// release is the release of the stream that the image is to be of: with update
	// "pinned" the one that it stays on.
	// +optional
	Release string `json:"release,omitempty"`
	// servedRelease is the release of the image that is served; another than release
	// while that is being downloaded.
	// +optional
	ServedRelease string `json:"servedRelease,omitempty"`
	// maxIgnition is the newest Ignition spec version that the image reads, where
	// that is known of its release.
	// +optional
	MaxIgnition string `json:"maxIgnition,omitempty"`
	// files are the files of an image of format pxe.
	// +optional
	// +listType=map
	// +listMapKey=role
	Files []ImageFile `json:"files,omitempty"`
	// download is what is being downloaded.
	// +optional
	Download *DownloadProgress `json:"download,omitempty"`
	// volumeID is the volume identifier of the ISO 9660 file system.
	// +optional
	VolumeID string `json:"volumeID,omitempty"`
	// distro is what the image was recognised as.
	// +optional
	Distro string `json:"distro,omitempty"`
	// targetIQN is the iSCSI name that it is served under.
	// +optional
	TargetIQN string `json:"targetIQN,omitempty"`
	// portalIP is the address that it is served at.
	// +optional
	PortalIP string `json:"portalIP,omitempty"`
	// portalPort is the port that it is served at.
	// +optional
	PortalPort int32 `json:"portalPort,omitempty"`
	// kernelArgsApplied are the kernel arguments that are in force.
	// +optional
	// +listType=atomic
	KernelArgsApplied []string `json:"kernelArgsApplied,omitempty"`
	// patchedFiles are the files that the overlay replaces.
	// +optional
	// +listType=atomic
	PatchedFiles []string `json:"patchedFiles,omitempty"`
	// errorMessage says what is wrong with the image.
	// +optional
	ErrorMessage string `json:"errorMessage,omitempty"`
	// conditions are the image's conditions, UpToDate among them.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// subscribers are the initiators that are logged in.
	// +optional
	// +listType=atomic
	Subscribers []Subscriber `json:"subscribers,omitempty"`
}

// ImageFile is a file of an image that is several.
type ImageFile struct {
	// role is kernel, initramfs or rootfs.
	Role string `json:"role"`
	// size is its size in bytes.
	Size int64 `json:"size"`
	// sha256 is its hex digest.
	SHA256 string `json:"sha256"`
}

// DownloadProgress is how far a download is.
type DownloadProgress struct {
	// release is the release that is being downloaded, where the image is of a stream.
	// +optional
	Release string `json:"release,omitempty"`
	// file is what is being downloaded: disk, kernel, initramfs or rootfs.
	// +optional
	File string `json:"file,omitempty"`
	// received is how many bytes of it have come.
	Received int64 `json:"received"`
	// total is how many there are; 0 where that is not known yet.
	// +optional
	Total int64 `json:"total,omitempty"`
}

// Subscriber is an initiator that is logged in to an image's target.
type Subscriber struct {
	// name is the host, where it is known.
	// +optional
	Name string `json:"name,omitempty"`
	// initiatorIQN is the initiator's name.
	// +optional
	InitiatorIQN string `json:"initiatorIQN,omitempty"`
	// since is when it logged in.
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
