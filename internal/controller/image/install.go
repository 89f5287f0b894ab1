package image

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/iso"
	"glowplug/internal/image"
	"glowplug/internal/image/download"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"
)

// install puts a whole part in the place of the image: an ISO image, with the digest that
// was asked for, of an object that still wants it. o is the order of a download; nil: it
// was uploaded.
func (c *Controller) install(ctx context.Context, st *state, cdrom *v1.ISCSICdrom, p *download.Part, want string,
	o *order, wanted func(*v1.ISCSICdrom) error) error {
	sum := p.Sum()
	if want != "" && !strings.EqualFold(want, sum) {
		return fmt.Errorf("%w: its SHA-256 is not %s", image.ErrBadImage, strings.ToLower(want))
	}
	if err := p.Sync(); err != nil {
		return err
	}
	img, err := iso.Open(p, p.State.Offset)
	if err != nil {
		return fmt.Errorf("%w: %v", image.ErrBadImage, err)
	}
	if o != nil {
		if err := c.checkArguments(st.ref, cdrom, &image.Volume{Image: img, SHA256: sum}); err != nil {
			return err
		}
	}
	st.work.Lock()
	defer st.work.Unlock()
	return c.commit(ctx, st.ref, cdrom, p, sum, o, wanted)
}

// checkArguments fails where machines could not be given an image that was downloaded,
// and can be given the one whose place it would take. It is kept: other arguments of
// the object may be the remedy.
func (c *Controller) checkArguments(ref Ref, cdrom *v1.ISCSICdrom, v *image.Volume) error {
	current := c.images.Current(ref)
	if current.Volume == nil || current.Failure != nil {
		return nil
	}
	if now := c.images.Cdrom(ref); now != nil && now.UID == cdrom.UID {
		cdrom = now
	}
	after, err := c.images.Overlay(v, cdrom, nil, "")
	if err != nil {
		return download.Permanent("its kernel arguments cannot be set: %w", err)
	}
	before, err := c.images.Overlay(current.Volume, cdrom, nil, "")
	_, v.TellsConfig, _ = v.Image.BootFiles()
	if err == nil && current.Volume.FindsConfig(before) && !v.FindsConfig(after) {
		return download.Permanent("no kernel argument tells the system of the image (%s) where its config is, and one of "+
			"the served image does; set spec.kernelArgs", v.Image.Distro())
	}
	return nil
}

func (c *Controller) commit(ctx context.Context, ref Ref, cdrom *v1.ISCSICdrom, p *download.Part, sum string,
	o *order, wanted func(*v1.ISCSICdrom) error) error {
	if err := c.checkWanted(ctx, ref, cdrom, wanted); err != nil {
		return err
	}
	streamed := o != nil && o.of.Stream != ""
	if streamed {
		if err := c.folder.addRelease(cdrom, o, c.opts.Keyring != nil); err != nil {
			return err
		}
	}
	if err := c.folder.commit(p, image.ReceivedFile, sum); err != nil {
		return err
	}
	if streamed {
		c.folder.tidy(cdrom, o)
	}
	return nil
}

// get returns a CD-ROM as it is stored now.
func (c *Controller) get(ctx context.Context, ref Ref) (*v1.ISCSICdrom, error) {
	cdrom := &v1.ISCSICdrom{}
	err := c.opts.Store.Get(ctx, storeKey(ref), storage.GetOptions{}, cdrom)
	if storage.IsNotFound(err) {
		return nil, apierrors.NewNotFound(v1.Resource("iscsicdroms"), ref.Name)
	}
	return cdrom, err
}

// checkWanted asks an object as it is stored now whether it still wants a file.
func (c *Controller) checkWanted(ctx context.Context, ref Ref, cdrom *v1.ISCSICdrom,
	wanted func(*v1.ISCSICdrom) error) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	now, err := c.get(ctx, ref)
	if err != nil {
		return err
	}
	if now.UID != cdrom.UID {
		return errDeleted
	}
	return wanted(now)
}

// installSet replaces the served set by a complete one.
func (c *Controller) installSet(ctx context.Context, f *fetch) error {
	f.state.work.Lock()
	defer f.state.work.Unlock()
	if err := c.checkWanted(ctx, f.state.ref, f.cdrom, c.downloads.stillWanted(f)); err != nil {
		return err
	}
	return c.folder.addRelease(f.cdrom, f.order, c.opts.Keyring != nil)
}

// ConfigArgumentWarnings returns the warning for an ISCSICdrom that is being written: no argument of its
// image, whose file this server has, tells the system where its config is.
func (c *Controller) ConfigArgumentWarnings(cdrom *v1.ISCSICdrom) []string {
	if cdrom.Spec.External != nil || !cdrom.Spec.WantsDefaultKernelArgs() || image.Format(cdrom) == v1.FormatPXE ||
		slices.ContainsFunc(cdrom.Spec.KernelArgs, iso.TellsConfig) {
		return nil
	}
	distro, tells, known := c.images.Peek(cdrom)
	if !known || tells {
		return nil
	}
	return []string{"spec.kernelArgs: " + noConfigArgument(distro)}
}
