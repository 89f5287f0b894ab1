package image

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/coreos"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/feed"
	"glowplug/internal/image"
	"glowplug/internal/image/download"
)

// Streams are the releases that images can be of; a streams.Library is one.
type Streams interface {
	// Resolve returns a release of a stream, or with "" its current release. The error is
	// for the author of the image.
	Resolve(stream, release, architecture, artifact, format string) (coreos.Release, error)
	// Subscribe returns a subscription to the streams of which another release may be the current one; "" is all.
	Subscribe() *feed.Subscription[string]
}

// orders finds the files that CD-ROMs want to be fetched.
type orders struct {
	streams Streams
	read    func() bool // nil: streams have been read
	lost    bool        // streams cannot be read
}

// order is the download of an image: one file, or all files of a release.
type order struct {
	// field is where the image says so, in messages.
	field string
	// key is the same for orders of the same bytes from the same places.
	key   string
	files []ordered
	// of says which release of a stream the files are; zero for a URL.
	of origin
}

// ordered is a file of an order.
type ordered struct {
	// role is what it is to a boot, name its name in the image's folder.
	role, name string
	source     download.Source
}

// origin is a release of a stream, in one format.
type origin struct {
	Stream       string `json:"stream"`
	Architecture string `json:"architecture"`
	Artifact     string `json:"artifact"`
	Format       string `json:"format"`
	Release      string `json:"release"`
	// MaxIgnition is the newest Ignition spec that it reads; "": not known.
	MaxIgnition string `json:"maxIgnition,omitempty"`
}

// sameSeries reports whether one can take the place of the other when the stream
// moves on.
func (o origin) sameSeries(other origin) bool {
	o.Release, o.MaxIgnition = other.Release, other.MaxIgnition
	return o == other
}

// errUnread is for streams that have not been read yet.
var errUnread = errors.New("the stream releases have not been read yet")

// errLost is for streams whose bucket is damaged: they are read once an operator has restored it
// and started the server again.
var errLost error = fault.LostBucket("the stream releases")

// of returns what a CD-ROM wants to be fetched; nil where it wants nothing. The
// error says why that cannot be told.
func (from orders) of(cdrom *v1.ISCSICdrom) (*order, error) {
	spec := &cdrom.Spec
	switch {
	case spec.URL != "":
		sum := strings.ToLower(spec.SHA256)
		source := download.Source{URLs: []string{spec.URL}, SHA256: sum, Origin: sum + " " + spec.URL}
		files := []ordered{{role: coreos.Disk, name: image.ReceivedFile, source: source}}
		return &order{field: "spec.url", key: source.Origin, files: files}, nil
	case spec.Stream != nil:
		return from.resolve(cdrom)
	}
	return nil, nil
}

// resolve finds the release for a CD-ROM that follows a stream.
func (from orders) resolve(cdrom *v1.ISCSICdrom) (*order, error) {
	if from.streams == nil {
		return nil, errors.New("this server keeps no streams")
	}
	if from.read != nil && !from.read() {
		if from.lost {
			return nil, errLost
		}
		return nil, errUnread
	}
	s := cdrom.Spec.Stream.WithDefaults()
	release := s.Release
	if release == "" && s.Update == v1.UpdatePinned {
		release = cdrom.Status.Release
	}
	found, err := from.streams.Resolve(s.Name, release, s.Architecture, s.Artifact, s.Format)
	if err != nil {
		return nil, err
	}
	o := &order{field: "spec.stream", of: originOf(cdrom.Spec.Stream)}
	o.of.Release = found.Release
	o.of.MaxIgnition = cmp.Or(found.MaxIgnition, ignition.MaxOfRelease(found.Release))
	for _, f := range found.Files {
		name := image.ReceivedFile
		if s.Format == v1.FormatPXE {
			// Files with the same digest are the same file, in all releases.
			name = f.Role + "." + strings.ToLower(f.SHA256)
		}
		source := download.Source{URLs: f.URLs, SHA256: f.SHA256, Signature: f.Signature}
		o.files = append(o.files, ordered{role: f.Role, name: name, source: source})
	}
	if err := o.check(s.Format); err != nil {
		return nil, err
	}
	o.key = fmt.Sprintf("%q", []any{o.of, o.files})
	return o, nil
}

// maxIgnition is the newest Ignition spec version that the image of a CD-ROM reads or
// will read; "" where that is not known.
func (from orders) maxIgnition(cdrom *v1.ISCSICdrom) string {
	if cdrom.Spec.Stream == nil {
		return ""
	}
	o, err := from.resolve(cdrom)
	if err != nil {
		return cdrom.Status.MaxIgnition
	}
	return o.of.MaxIgnition
}

// check reports whether the files of a release make an image of a format.
func (o *order) check(format string) error {
	have := map[string]int{}
	for _, f := range o.files {
		have[f.role]++
	}
	name := fmt.Sprintf("release %s of stream %s", o.of.Release, o.of.Stream)
	for _, f := range o.files {
		if digest, err := hex.DecodeString(f.source.SHA256); err != nil || len(digest) != sha256.Size {
			return fmt.Errorf("%s: the SHA-256 of its %s is none", name, f.role)
		}
	}
	switch {
	case format == v1.FormatISO && !maps.Equal(have, map[string]int{coreos.Disk: 1}):
		return fmt.Errorf("%s has no ISO image in the format iso", name)
	case format == v1.FormatPXE && (have[coreos.Kernel] != 1 || have[coreos.Initramfs] != 1):
		return fmt.Errorf("%s has no kernel or no initramfs in the format pxe", name)
	}
	return nil
}
