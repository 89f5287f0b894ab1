package app

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/iso"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/image"
	"glowplug/internal/journal"
	"glowplug/internal/serve/iscsi"
	"glowplug/internal/serve/machine"
	"glowplug/internal/store/snapshot"
	"glowplug/internal/streams"
)

// targets are the images as iSCSI sees them.
type targets struct {
	app       *App
	landmarks *landmarks
}

// request is what an initiator's connection says of who it is. iPXE's own name
// ends in the machine's UUID.
func (t *targets) request(l iscsi.Login) *decide.Request {
	r := &decide.Request{Type: decide.IPXE, Caller: t.app.resolver.Peer(l.Remote)}
	if uuid, err := netaddr.ParseUUID(l.Initiator[strings.LastIndexByte(l.Initiator, ':')+1:]); err == nil {
		r.Claims = identity.Claims{UUID: uuid}
	}
	return r
}

// guessed counts what an initiator claims and asks for wrongly.
func (t *targets) guessed(r *decide.Request, at time.Time, i *decide.ImageDecision) {
	if i.Unheld.Any() {
		t.app.sources.Guessed(at, &r.Caller, &i.Unheld)
	}
	if i.Missed {
		t.app.sources.Missed(at, &r.Caller)
	}
	if i.Err != nil {
		t.app.sources.Answered(i.Err)
	}
}

// resolve finds the image that an initiator logs in to, as its host is to see it.
func (t *targets) resolve(l iscsi.Login) (*iscsi.Target, error) {
	if !t.app.ready() {
		return nil, errors.New("the store has not been read yet")
	}
	request, now := t.request(l), time.Now()
	request.ClaimLimit = t.app.sources.Claims(now, &request.Caller, &request.Claims)
	request.ImageLimit = t.app.sources.Images(now, &request.Caller)
	i := t.app.decider.DecideTarget(request, l.Target)
	t.guessed(request, now, &i)
	for _, n := range i.Notices {
		t.app.journal.Notice(n)
		if n.IsAlarm() {
			t.app.log.Warn(n.Message, "alarm", n.Reason, "host", n.Host.Ref.String(), "target", l.Target)
		}
	}
	if i.Err != nil {
		switch i.Err.Kind {
		case fault.NoMatch:
			return nil, fmt.Errorf("%s: %w", i.Err.Sentence, iscsi.ErrNotFound)
		case fault.Refused:
			return nil, fmt.Errorf("%s: %w", i.Err.Sentence, iscsi.ErrForbidden)
		}
		return nil, i.Err
	}
	client := clientOf(&i)
	disk, err := t.app.images.DiskAgain(i.Image.Ref, readerOf(l, client), i.Args)
	if err != nil {
		if i.Host != nil { // a strange initiator's failure is nobody's event
			t.app.journal.Notice(decide.ImageUnavailable(i.Host, i.Image.Ref, fault.Of(err)))
		}
		return nil, err
	}
	if i.Host != nil {
		t.landmarks.of(disk.Image()) // so that no read has to wait for them
	}
	target := &iscsi.Target{
		IQN: i.Image.IQN, Disk: checkedDisk{disk}, AllowedInitiators: i.Image.AllowedInitiators, Client: client,
		Tag: &visit{disk: disk, host: i.Host, image: i.Image.Ref, journal: t.app.journal, landmarks: t.landmarks}, Release: disk.Release,
	}
	if chap := i.Image.CHAP; chap != nil {
		target.CHAP = iscsi.CHAP(*chap)
	}
	return target, nil
}

// clientOf names the machine that logs in, where the network says which host it is.
func clientOf(i *decide.ImageDecision) string {
	if !i.ByNetwork {
		return ""
	}
	return "host " + i.Host.Ref.String()
}

// readerOf names who reads an image: an initiator's name is anybody's to say, so it is
// one of a machine.
func readerOf(l iscsi.Login, client string) string {
	return l.Initiator + " of " + cmp.Or(client, l.Remote.Addr().String())
}

// discover names the targets that an initiator may log in to.
func (t *targets) discover(l iscsi.Login) []string {
	if !t.app.ready() {
		return nil
	}
	request, now := t.request(l), time.Now()
	request.ClaimLimit = t.app.sources.Claims(now, &request.Caller, &request.Claims)
	var names []string
	for n, ref := range t.app.images.Targets() {
		i := t.app.decider.DecideImage(request, ref, true)
		if n == 0 { // it claims the same of each
			i.Missed = false // it has not asked for this one
			t.guessed(request, now, &i)
		}
		if i.Err == nil {
			names = append(names, i.Image.IQN)
		}
	}
	return names
}

func (t *targets) login(s *iscsi.Session) {
	v := s.Tag.(*visit)
	by := v1.Subscriber{InitiatorIQN: s.Initiator}
	if v.host != nil {
		by.Name = v.host.Ref.String()
		v.journal.TargetLogin(v.host, v.image, s.Initiator)
	}
	v.disk.Subscribe(by)
	if v.disk.Deleted() { // while it logged in
		t.app.evict(v.image)
	}
}

// wrongSecret tells of a login with a wrong CHAP name or secret.
func (t *targets) wrongSecret(l iscsi.Login, tag any, wrong int) {
	v, from := tag.(*visit), t.app.resolver.Peer(l.Remote)
	who := from.Addr.String()
	if from.MAC != (netaddr.MAC{}) {
		who += " (" + from.MAC.String() + ")"
	}
	if v.host != nil {
		who += ", host " + v.host.Ref.String() + ","
	}
	view := t.app.inventory.View()
	image := view.Image(v.image)
	view.End()
	if image != nil {
		const message = "a login from %s gave a wrong CHAP name or secret; from there came %d of late"
		v.journal.LoginRefused(image, fmt.Sprintf(message, who, wrong))
	}
}

func (t *targets) read(s *iscsi.Session, off, n int64) { s.Tag.(*visit).read(off, n) }

// checkedDisk is a disk whose changes an initiator is told of.
type checkedDisk struct{ *image.Disk }

// Check implements iscsi.Checker.
func (d checkedDisk) Check() error {
	err := d.Disk.Check()
	if errors.Is(err, image.ErrChanging) {
		err = fmt.Errorf("%w: %w", iscsi.ErrNotReady, err)
	}
	return err
}

// visit is a machine that reads an image.
type visit struct {
	disk      *image.Disk
	host      *snapshot.Host // nil: unknown
	image     snapshot.Ref
	journal   *journal.Journal
	landmarks *landmarks

	// seen is true once the kernel and the initrd have been read.
	seen           atomic.Bool
	kernel, initrd atomic.Bool
}

// read notes what n bytes at off are of, where that tells how far a boot is.
func (v *visit) read(off, n int64) {
	if v.host == nil || v.seen.Load() {
		return
	}
	for _, file := range v.landmarks.of(v.disk.Image()) {
		if !file.Holds(off, n) {
			continue
		}
		if file.Kind == iso.Kernel && !v.kernel.Swap(true) {
			v.journal.KernelRead(v.host, v.image, file.Path)
		}
		if file.Kind == iso.Initrd && !v.initrd.Swap(true) {
			v.journal.InitrdRead(v.host, v.image, file.Path)
		}
	}
	v.seen.Store(v.kernel.Load() && v.initrd.Load())
}

// maxLandmarks bounds the images whose boot files are remembered.
const maxLandmarks = 256

// landmarks remembers the boot files of images.
type landmarks struct {
	mu    sync.Mutex
	files map[*iso.Image][]iso.BootFile
}

func newLandmarks() *landmarks { return &landmarks{files: map[*iso.Image][]iso.BootFile{}} }

func (l *landmarks) of(image *iso.Image) []iso.BootFile {
	l.mu.Lock()
	defer l.mu.Unlock()
	files, known := l.files[image]
	if !known {
		if len(l.files) >= maxLandmarks {
			clear(l.files)
		}
		files, _ = image.BootFiles() // an image without any tells less of its boots
		l.files[image] = files
	}
	return files
}

// tryImage tells whether an image can be had with a machine's own kernel arguments.
// What is worked out for that is kept for the machine, which is to come for it.
func (a *App) tryImage(image *snapshot.Image, args []string) error {
	if image.PXE { // its arguments stand in the script
		files, err := a.images.Files(image.Ref, "")
		if err == nil {
			files.Release()
		}
		return err
	}
	disk, err := a.images.Disk(image.Ref, args)
	if err == nil {
		disk.Release()
	}
	return err
}

// shelf is the images as HTTP sees them.
type shelf struct {
	images    *image.Library
	journal   *journal.Journal
	landmarks *landmarks
}

// Open implements bootserver.Images.
func (s *shelf) Open(ref snapshot.Ref, version string, args []string, host *snapshot.Host) (machine.Image, error) {
	if cdrom := s.images.Cdrom(ref); cdrom != nil && cdrom.Spec.Stream != nil && cdrom.Spec.Stream.Format == v1.FormatPXE {
		files, err := s.images.Files(ref, version)
		if err != nil {
			return nil, err
		}
		return &parcel{files, &visit{host: host, image: ref, journal: s.journal}}, nil
	}
	disk, err := s.images.DiskOf(ref, version, args)
	if err != nil {
		return nil, err
	}
	return &page{disk, &visit{disk: disk, host: host, image: ref, journal: s.journal, landmarks: s.landmarks}}, nil
}

// page is a disk that notes what is read of it.
type page struct {
	*image.Disk
	visit *visit
}

// ReadAt implements io.ReaderAt.
func (p *page) ReadAt(b []byte, off int64) (int, error) {
	p.visit.read(off, int64(len(b)))
	return p.Disk.ReadAt(b, off)
}

// File implements bootserver.Image.
func (p *page) File(path string) (io.ReadSeeker, bool) {
	file, err := p.Lookup(path)
	if err != nil {
		return nil, false
	}
	return file.Reader(p), true
}

// parcel is an image that is several files. It notes which of them are read.
type parcel struct {
	*image.Files
	visit *visit
}

// Size implements bootserver.Image.
func (p *parcel) Size() int64 { return -1 }

// ReadAt implements io.ReaderAt: there is nothing to read but files.
func (p *parcel) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// File implements bootserver.Image.
func (p *parcel) File(role string) (io.ReadSeeker, bool) {
	file, size, ok := p.Files.Open(role)
	if !ok {
		return nil, false
	}
	noted := &noted{SectionReader: io.NewSectionReader(file, 0, size)}
	if v := p.visit; v.host != nil {
		switch role {
		case streams.Kernel:
			noted.first = func() { v.journal.KernelRead(v.host, v.image, "/"+role) }
		case streams.Initramfs:
			noted.first = func() { v.journal.InitrdRead(v.host, v.image, "/"+role) }
		}
	}
	return noted, true
}

// noted is a file whose first read is noted.
type noted struct {
	*io.SectionReader
	first func() // nil: no longer, or not
}

func (n *noted) Read(b []byte) (int, error) {
	if n.first != nil {
		n.first()
		n.first = nil
	}
	return n.SectionReader.Read(b)
}
