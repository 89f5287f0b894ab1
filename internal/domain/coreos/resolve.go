package coreos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Release is one artifact in one format of a release of a stream.
type Release struct {
	Stream, Release, Architecture, Artifact, Format string
	// MaxIgnition is the newest Ignition spec version that the release was recorded
	// to read; empty: nothing was recorded.
	MaxIgnition string
	// Files are the disk, or the kernel, the initramfs and the rootfs.
	Files []File
}

// File is a file of a Release.
type File struct {
	// Role is Disk, Kernel, Initramfs or Rootfs.
	Role string
	// URLs are where it can be had, in the order to try.
	URLs []string
	// SHA256 is its hex digest, in lower case; UncompressedSHA256 the one of what it
	// unpacks to, or empty.
	SHA256, UncompressedSHA256 string
	// Signature is the URL of its detached GPG signature, or empty.
	Signature string
}

// Imported is a release of a stream as it was imported.
type Imported struct {
	Stream, Release string
	MaxIgnition     string
	// Mirrors are URLs of folders, tried before the locations in the document.
	Mirrors  []string
	Document *Document
}

// Resolve finds the files of an artifact in a format.
func (s *Imported) Resolve(architecture, artifact, format string) (Release, error) {
	name := fmt.Sprintf("release %s of stream %s", s.Release, s.Stream)
	arch, ok := s.Document.Stream.Architectures[architecture]
	if !ok {
		return Release{}, fmt.Errorf("%s has no architecture %s, only %s",
			name, architecture, Few(s.Document.Architectures()))
	}
	platform, ok := arch.Artifacts[artifact]
	if !ok {
		return Release{}, fmt.Errorf("%s has no artifact %s for %s, only %s",
			name, artifact, architecture, Few(slices.Sorted(maps.Keys(arch.Artifacts))))
	}
	found, ok := platform.Formats[format]
	if !ok {
		return Release{}, fmt.Errorf("%s has no format %s of %s for %s, only %s",
			name, format, artifact, architecture, Few(slices.Sorted(maps.Keys(platform.Formats))))
	}
	r := Release{
		Stream: s.Stream, Release: s.Release, Architecture: architecture, Artifact: artifact, Format: format,
		MaxIgnition: s.MaxIgnition, Files: files(found),
	}
	if len(r.Files) == 0 {
		return Release{}, fmt.Errorf("%s lists no file that is known here for %s/%s", name, artifact, format)
	}
	for i := range r.Files {
		f := &r.Files[i]
		var mirrored []string
		if below, err := MirrorPath(s.Stream, platform.Release, architecture, artifact, f.URLs[0]); err == nil {
			for _, base := range s.Mirrors {
				mirrored = append(mirrored, strings.TrimSuffix(base, "/")+"/"+below)
			}
		}
		f.URLs = append(mirrored, f.URLs...)
	}
	return r, nil
}

// Few names some of many.
func Few(names []string) string {
	const some = 12
	if len(names) > some {
		return strings.Join(names[:some], ", ") + fmt.Sprintf(" and %d more", len(names)-some)
	}
	return strings.Join(names, ", ")
}
