// Package portal offers images to initiators over iSCSI: it finds the host of a login,
// asks for the decision which image it gets, and records the progress of its boot.
package portal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	v1 "glowplug/api/v1"
	"glowplug/internal/audit"
	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/image"
	"glowplug/internal/serve/iscsi"
	"glowplug/internal/serve/peer"
	"glowplug/internal/serve/sources"
)

// Journal records the events of boots. Its methods do not block.
type Journal interface {
	image.Journal
	Notice(n decide.Notice)
	TargetLogin(host *model.Host, image model.Ref, initiator string)
	LoginRefused(image *model.Image, message string)
}

// Options are the parts of a Portal.
type Options struct {
	// Listener accepts the connections of initiators.
	Listener net.Listener
	// Address is the answer to discovery, as host:port; "": the server's address in that connection.
	Address        string
	MaxConnections int
	Decider        *decide.Decider
	Images         *image.Library
	Resolver       *peer.Resolver
	Sources        *sources.Guard
	Journal        Journal
	// Audit records logins, also refused ones; nil: there is no audit.
	Audit func(audit.Answer)
	// Image returns an image as it is stored; nil where there is none.
	Image func(model.Ref) *model.Image
	// CHAP returns the credentials of an image in a namespace, whose object may name a Secret.
	CHAP func(namespace string, chap *v1.CHAP) (v1.CHAP, error)
	// Ready reports whether machines can be answered.
	Ready  func() bool
	Logger *slog.Logger
}

// Portal is the iSCSI portal of the images.
type Portal struct {
	opts   Options
	server *iscsi.Server
}

// New returns a Portal, which serves nothing before Serve.
func New(opts Options) (*Portal, error) {
	p := &Portal{opts: opts}
	var err error
	p.server, err = iscsi.New(iscsi.Options{
		Resolve: p.resolve, Discover: p.discover, Portal: opts.Address, Logger: opts.Logger,
		MaxConnections: opts.MaxConnections,
		Hooks: iscsi.Hooks{
			Login: p.login, Refused: p.refused, Guessed: p.wrongSecret,
			Read: p.read,
		},
	})
	return p, err
}

// Serve serves initiators until Shutdown or Close.
func (p *Portal) Serve() error {
	err := p.server.Serve(p.opts.Listener)
	if errors.Is(err, iscsi.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown lets initiators finish their commands, until ctx ends.
func (p *Portal) Shutdown(ctx context.Context) {
	if err := p.server.Shutdown(ctx); err != nil {
		p.opts.Logger.Warn("stopping iSCSI", "error", err)
	}
}

// Close ends all sessions at once.
func (p *Portal) Close() { p.server.Close() }

// Evict ends the sessions of an image that was deleted although it was being read, which
// ejects the medium. It does not block.
func (p *Portal) Evict(ref model.Ref) {
	n := p.server.Drop(func(s *iscsi.Session) bool {
		b := s.Tag.(*boot)
		return b.image == ref && b.disk.Deleted()
	})
	if n > 0 {
		p.opts.Logger.Info("the sessions of a deleted image were ended", "image", ref.String(), "sessions", n)
	}
}

// boot is the host that reads an image in a session.
type boot struct {
	disk     *image.Disk
	host     *model.Host // nil: unknown
	image    model.Ref
	progress *image.Progress
	// reads is true once the host has read something.
	reads atomic.Bool
}

// request returns the claims of an initiator's connection. iPXE's own name ends in the
// machine's UUID.
func (p *Portal) request(l iscsi.Login) *decide.Request {
	r := &decide.Request{Type: decide.IPXE, Caller: p.opts.Resolver.Peer(l.Remote)}
	uuid, err := netaddr.ParseUUID(l.Initiator[strings.LastIndexByte(l.Initiator, ':')+1:])
	if err == nil && !netaddr.IsPlaceholderUUID(uuid) {
		r.Claims = identity.Claims{UUID: uuid}
	}
	return r
}

// guessed counts wrong claims and questions of an initiator.
func (p *Portal) guessed(r *decide.Request, at time.Time, i *decide.ImageDecision) {
	if i.Unheld.Any() {
		p.opts.Sources.Guessed(at, &r.Caller, &i.Unheld)
	}
	if i.Missed {
		p.opts.Sources.Missed(at, &r.Caller)
	}
	if i.Err != nil {
		p.opts.Sources.Answered(i.Err)
	}
}

// resolve finds the image that an initiator logs in to, with the arguments of its host. The name of the
// target may have the token of its boot, which appears nowhere else from here on.
func (p *Portal) resolve(l iscsi.Login) (*iscsi.Target, error) {
	var token string
	l.Target, token = boottoken.CutTarget(l.Target)
	if !p.opts.Ready() {
		err := errors.New("the store has not been read yet")
		p.record(l, nil, model.Ref{}, err)
		return nil, err
	}
	request, now := p.request(l), time.Now()
	request.Claims.Token = token
	request.ClaimLimit = p.opts.Sources.Claims(now, &request.Caller, &request.Claims)
	request.ImageLimit = p.opts.Sources.Images(now, &request.Caller)
	i := p.opts.Decider.Target(request, l.Target)
	target, err := p.target(l, request, now, &i)
	if err != nil {
		p.record(l, i.Host, imageOf(&i), err)
		err = fmt.Errorf("%s: %w", l.Target, err)
	}
	return target, err
}

// target returns the target of a decision.
func (p *Portal) target(l iscsi.Login, request *decide.Request, now time.Time, i *decide.ImageDecision) (
	*iscsi.Target, error,
) {
	p.guessed(request, now, i)
	for _, n := range i.Notices {
		p.opts.Journal.Notice(n)
		if n.IsAlarm() {
			p.opts.Logger.Warn(n.Message, "alarm", n.Reason, "host", n.Host.Ref.String(), "target", l.Target)
		}
	}
	switch {
	case i.Err == nil:
	case i.Err.Kind == fault.NoMatch:
		return nil, fmt.Errorf("%s: %w", i.Err.Sentence, iscsi.ErrNotFound)
	case i.Err.Kind == fault.Refused:
		return nil, fmt.Errorf("%s: %w", i.Err.Sentence, iscsi.ErrForbidden)
	default:
		return nil, i.Err
	}
	chap, err := p.credentials(i)
	if err != nil {
		return nil, err
	}
	client := clientOf(i)
	disk, err := p.opts.Images.DiskAgain(i.Image.Ref, readerOf(l, client), i.Args, i.Token)
	if err != nil {
		if i.Host != nil { // the failure of an unknown initiator is no event of a host
			p.opts.Journal.Notice(decide.ImageUnavailable(i.Host, i.Image.Ref, fault.Of(err)))
		}
		return nil, err
	}
	b := &boot{disk: disk, host: i.Host, image: i.Image.Ref, progress: disk.Progress(i.Host, p.opts.Journal)}
	target := &iscsi.Target{
		IQN: i.Image.IQN, Disk: checkedDisk{disk}, AllowedInitiators: i.Image.AllowedInitiators, Client: client,
		Tag: b, Release: disk.Release, CHAP: chap,
	}
	return target, nil
}

// credentials returns what a login to the image of a decision has to prove; empty: nothing.
func (p *Portal) credentials(i *decide.ImageDecision) (iscsi.CHAP, error) {
	if i.Image.CHAP == nil {
		return iscsi.CHAP{}, nil
	}
	chap, err := p.opts.CHAP(i.Image.Namespace, i.Image.CHAP)
	if err != nil {
		failure := fault.New(fault.Unavailable, "image "+i.Image.Ref.String()+" asks for a login: "+err.Error())
		if i.Host != nil {
			p.opts.Journal.Notice(decide.ImageUnavailable(i.Host, i.Image.Ref, failure))
		}
		return iscsi.CHAP{}, failure
	}
	return iscsi.CHAP{
		Username: chap.Username, Password: chap.Password,
		MutualUsername: chap.MutualUsername, MutualPassword: chap.MutualPassword,
	}, nil
}

// clientOf names the machine that logs in, where the network says which host it is.
func clientOf(i *decide.ImageDecision) string {
	if !i.ByNetwork {
		return ""
	}
	return "host " + i.Host.Ref.String()
}

// readerOf names the reader of an image. Any machine can claim an initiator's name, so the
// machine is a part of it.
func readerOf(l iscsi.Login, client string) string {
	return l.Initiator + " of " + cmp.Or(client, l.Remote.Addr().String())
}

// discover returns the names of the targets that an initiator may log in to.
func (p *Portal) discover(l iscsi.Login) []string {
	if !p.opts.Ready() {
		return nil
	}
	request, now := p.request(l), time.Now()
	request.ClaimLimit = p.opts.Sources.Claims(now, &request.Caller, &request.Claims)
	var names []string
	for n, ref := range p.opts.Images.Targets() {
		i := p.opts.Decider.Image(request, ref, true)
		if n == 0 { // the claims are the same for each
			i.Missed = false // the initiator did not ask for this one
			p.guessed(request, now, &i)
		}
		if i.Err == nil {
			names = append(names, i.Image.IQN)
		}
	}
	return names
}

func (p *Portal) login(s *iscsi.Session) {
	b := s.Tag.(*boot)
	p.record(s.Login, b.host, b.image, nil)
	by := v1.Subscriber{InitiatorIQN: s.Initiator}
	if b.host != nil {
		by.Name = b.host.Ref.String()
	}
	b.disk.Subscribe(by)
	if b.disk.Deleted() { // during the login
		p.Evict(b.image)
	}
}

// read notes what a session reads. The step of the login is noted with the first read: iPXE logs in to the portals of
// all servers in its script, and reads from one of them.
func (p *Portal) read(s *iscsi.Session, off, n int64) {
	b := s.Tag.(*boot)
	if b.host != nil && !b.reads.Load() && !b.reads.Swap(true) {
		p.opts.Journal.TargetLogin(b.host, b.image, s.Initiator)
	}
	b.progress.Read(off, n)
}

// wrongSecret records a login with a wrong CHAP name or secret.
func (p *Portal) wrongSecret(l iscsi.Login, tag any, wrong int) {
	b, from := tag.(*boot), p.opts.Resolver.Peer(l.Remote)
	who := from.Addr.String()
	if from.MAC != (netaddr.MAC{}) {
		who += " (" + from.MAC.String() + ")"
	}
	if b.host != nil {
		who += ", host " + b.host.Ref.String() + ","
	}
	if image := p.opts.Image(b.image); image != nil {
		const message = "a login from %s gave a wrong CHAP name or secret; from there came %d of late"
		p.opts.Journal.LoginRefused(image, fmt.Sprintf(message, who, wrong))
	}
}

// checkedDisk is a disk whose reads may succeed later while its file is read again.
type checkedDisk struct{ *image.Disk }

// Check implements iscsi.Disk.
func (d checkedDisk) Check() error {
	err := d.Disk.Check()
	if errors.Is(err, image.ErrChanging) {
		err = fmt.Errorf("%w: %w", iscsi.ErrNotReady, err)
	}
	return err
}
