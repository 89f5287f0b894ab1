package machine

import (
	"cmp"
	"net/http"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/ipxe"
	"glowplug/internal/store/snapshot"
)

// image returns an image for a script.
func (s bootPath) image(r *http.Request, req *request, b *decide.BootDecision, image *snapshot.Image) ipxe.Image {
	i := ipxe.Image{Name: image.Ref.String(), Version: cmp.Or(image.Version, image.Release)}
	if image.PXE {
		base := s.baseURL(r)
		files, rootfs := base+PathISO+versioned(image)+"/files/", ""
		if image.Rootfs {
			rootfs = files + "rootfs"
		}
		i.Kernel = &ipxe.Kernel{
			URL: files + "kernel" + claimed(req, b), Initrd: files + "initramfs" + claimed(req, b),
			Args: decide.KernelArgs(image, b.Host, base, rootfs),
		}
		return i
	}
	if image.External == nil && image.HTTP {
		i.URL = s.baseURL(r) + PathISO + versioned(image) + ".iso" + claimed(req, b)
		return i
	}
	i.Target = &ipxe.Target{}
	if e := image.External; e != nil {
		i.Target.Host, i.Target.Port = ipxe.ParsePortal(e.Portal)
		i.Target.IQN, i.Target.LUN = e.IQN, int(e.LUN)
	} else {
		i.Target.Host, i.Target.Port, i.Target.IQN = s.opts.Boot.Portal, s.opts.Boot.PortalPort, image.IQN
		if i.Target.Host == "" {
			i.Target.Host = localAddr(r).Addr().WithZone("").String()
		}
	}
	if image.CHAP != nil {
		i.Target.CHAP = (*ipxe.CHAP)(image.CHAP)
	}
	return i
}

// versionLength is the length of a version of an image: the first digits of its digest.
const versionLength = 12

// versioned returns the name of an image in paths: with its version where another image
// may replace it while the machine boots.
func versioned(image *snapshot.Image) string {
	if !image.Stream || len(image.Sum) < versionLength {
		return image.Ref.String()
	}
	return image.Ref.String() + "@" + image.Sum[:versionLength]
}

// claimed returns the query with the claim that a host was found by, so that it is found
// again when it reads its image.
func claimed(req *request, b *decide.BootDecision) string {
	claims := &req.Claims
	switch {
	case b.Host == nil:
	case b.FoundBy == "mac":
		return "?mac=" + claims.MAC.String()
	case b.FoundBy == "uuid":
		return "?uuid=" + claims.UUID
	case b.FoundBy == "hostname":
		return "?hostname=" + claims.Hostname
	}
	return ""
}
