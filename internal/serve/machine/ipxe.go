package machine

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/ipxe"
	"glowplug/internal/domain/model"
)

// serveScript answers PathScript, the same for every machine.
func (s bootPath) serveScript(w *response, r *http.Request, _ *request) result {
	script, err := ipxe.Boot(s.baseURL(r))
	if err != nil {
		return w.fail(result{}, fault.Of(err))
	}
	w.text(http.StatusOK, script)
	return result{}
}

// serveIPXE answers PathIPXE, and PathGRUB, with the script of the machine.
func (s bootPath) serveIPXE(w *response, r *http.Request, req *request) result {
	if failure := s.readClaims(r, req); failure != nil {
		return w.fail(result{}, failure)
	}
	req.Again = isAgain(r)
	b := s.opts.Boot.Booter.Boot(&req.Request)
	s.record(r, req, &b.Identity)
	res := result{ConfigDecision: decide.ConfigDecision{Identity: b.Identity, Err: b.Err}}
	if res.Err == decide.ClaimsLimited { // a script would explain nothing
		return w.fail(res, res.Err)
	}
	script := ""
	if res.Err == nil {
		req.Claims.Token = s.issueToken(r, req, &b)
		script, res.boots, res.Err = s.bootScript(r, req, &b)
		if res.Err != nil && b.Host != nil {
			s.notify(decide.BootUnavailable(&b, res.Err))
		}
	}
	if res.Err != nil {
		if res.Err.Kind != fault.Unavailable {
			return w.fail(res, res.Err)
		}
		// iPXE does not show the body of a 503, and waits while there is a Retry-After. A
		// script can show what is missing, and let the machine go on.
		name := "this machine"
		if b.Host != nil {
			name = "host " + b.Host.Ref.String()
		}
		script = s.scriptsOf(r).failed(name, res.Err.Sentence)
	}
	w.text(http.StatusOK, script)
	// As with configs, a believed caller who asks about a machine has booted nothing.
	machine := req.machine(b.Host)
	if machine != nil && !req.Caller.Believed && r.Method == http.MethodGet && w.broken == nil {
		s.journalBoot(machine, &b, &res, req.Again, s.noteScript(req, &b, script, s.baseURL(r)))
	}
	return res
}

// issueToken returns the token of a boot, for the script of a machine; "": it needs none. A believed
// caller, who asks about a machine, gets none.
func (s bootPath) issueToken(r *http.Request, req *request, b *decide.BootDecision) string {
	isBoot := b.Host != nil && !b.Local && !req.Caller.Believed && r.Method == http.MethodGet
	if !isBoot || !b.Limits.Token || s.opts.Journal == nil || s.opts.Boot.Tokens == nil {
		return ""
	}
	issued := s.opts.Journal.IssueToken(b.Host, req.Again, req.At)
	return s.opts.Boot.Tokens.Token(b.Host.UID, issued)
}

// fromDisk is what a machine boots that boots no image.
const fromDisk = "disk"

// isAgain reports whether a machine has asked for its script before in this boot, as it says.
func isAgain(r *http.Request) bool {
	try := r.URL.Query().Get("try")
	return try != "" && try != "0"
}

// journalBoot records the script of a machine.
func (s bootPath) journalBoot(
	machine *model.Host, b *decide.BootDecision, res *result, again bool, describe func(*v1.Boot),
) {
	switch {
	case s.opts.Journal == nil:
	case res.Err != nil:
		s.opts.Journal.Failed(machine, res.Err.Sentence, describe)
	case b.Local || res.boots == fromDisk:
		s.opts.Journal.LocalBoot(machine, b.Reason, describe)
	default:
		s.opts.Journal.ScriptServed(machine, scriptOf(b, res.boots), again, describe)
	}
}

// bootScript makes the script of a decision; boots is what it boots.
func (s bootPath) bootScript(r *http.Request, req *request, b *decide.BootDecision) (
	script, boots string, _ *fault.Error,
) {
	if b.Host == nil {
		return s.unknownScript(r, req, b)
	}
	name, write := "host "+b.Host.Ref.String(), s.scriptsOf(r)
	if b.Local {
		return write.local(name, b.Reason), fromDisk, nil
	}
	var image *ipxe.Image
	if b.Image != nil {
		i := s.image(r, req, b, b.Image)
		image = &i
		boots = "image " + b.Image.Ref.String()
		if err := s.addCredentials(image, b.Image); err != nil {
			return "", boots, err
		}
	}
	var err error
	switch {
	case b.Script == "":
		script, err = write.boots(name, image)
		return script, boots, scriptFault(err)
	case write != ipxeScripts{}:
		return "", boots, fault.New(fault.Unavailable, "it has "+explain.ScriptName(b.OfNamespace)+
			", which is for iPXE, and it has booted GRUB")
	}
	script, err = s.customScript(r, req, b, image)
	return script, cmp.Or(boots, explain.ScriptName(b.OfNamespace)), scriptFault(err)
}

// addCredentials adds the credentials of an image that asks for a login.
func (s bootPath) addCredentials(to *ipxe.Image, image *model.Image) *fault.Error {
	if image.CHAP == nil || to.Target == nil {
		return nil
	}
	chap, err := s.opts.Boot.CHAP(image.Namespace, image.CHAP)
	if err != nil {
		return fault.New(fault.Unavailable, "image "+image.Ref.String()+" asks for a login: "+err.Error())
	}
	to.Target.CHAP = &ipxe.CHAP{
		Username: chap.Username, Password: chap.Password,
		MutualUsername: chap.MutualUsername, MutualPassword: chap.MutualPassword,
	}
	return nil
}

// scriptOf names the script that boots what.
func scriptOf(b *decide.BootDecision, what string) string {
	if b.Image == nil {
		return what
	}
	return "the script that boots " + what
}

// unknownScript makes the script of a machine that is no host.
func (s bootPath) unknownScript(r *http.Request, req *request, b *decide.BootDecision) (
	script, boots string, _ *fault.Error,
) {
	switch s.opts.Boot.Unknown {
	case UnknownMenu:
		images := make([]ipxe.Image, 0, len(b.Offer))
		for _, image := range b.Offer {
			if !image.Hidden {
				images = append(images, s.image(r, req, b, image))
			}
		}
		address, mac := "", ""
		if caller := &req.Caller; caller.Addr.IsValid() {
			address = caller.Addr.String()
			if caller.MAC != zeroMAC {
				mac = caller.MAC.String()
			}
		}
		script, err := s.scriptsOf(r).menu(address, mac, images)
		return script, "menu", scriptFault(err)
	case UnknownDefault:
		for _, image := range b.Offer {
			if image.Default {
				i := s.image(r, req, b, image)
				b.Image = image
				script, err := s.scriptsOf(r).boots("an unknown machine", &i)
				return script, "image " + image.Ref.String(), scriptFault(err)
			}
		}
	}
	return s.scriptsOf(r).local("this machine", b.Reason), fromDisk, nil
}

// scriptFault returns the fault of a script that cannot be made; nil where err is.
func scriptFault(err error) *fault.Error {
	if err == nil {
		return nil
	}
	return &fault.Error{Kind: fault.Unavailable, Sentence: "the boot script cannot be made: " + err.Error(), Cause: err}
}

// customScript renders a script of the operator. It was checked when it was written.
func (s bootPath) customScript(r *http.Request, req *request, b *decide.BootDecision, image *ipxe.Image) (
	string, error,
) {
	template, err := ipxe.ParseTemplate(b.Script)
	if err != nil {
		return "", err
	}
	h, said := b.Host, r.URL.Query()
	m := ipxe.Machine{
		Host: h.Name, Namespace: h.Namespace, UUID: h.UUID, Labels: h.Labels, Server: s.baseURL(r),
		Token:    req.Claims.Token,
		State:    cmp.Or(b.Progress.State, v1.StateAvailable),
		Platform: said.Get("platform"), Arch: said.Get("arch"), Serial: said.Get("serial"), Asset: said.Get("asset"),
		Manufacturer: said.Get("manufacturer"), Product: said.Get("product"),
	}
	if len(h.Hostnames) > 0 {
		m.Hostname = h.Hostnames[0]
	}
	if len(h.MACs) > 0 {
		m.MAC = h.MACs[0].String()
	}
	if len(h.IPs) > 0 {
		m.IP = h.IPs[0].String()
	}
	if image != nil {
		m.Image = image.Name
		if m.Sanboot, err = image.Lines(); err != nil {
			return "", err
		}
	} else {
		m.Sanboot = ipxe.Exit
	}
	return template.Render(m)
}

// image returns an image for a script.
func (s bootPath) image(r *http.Request, req *request, b *decide.BootDecision, image *model.Image) ipxe.Image {
	i := ipxe.Image{Name: image.Ref.String(), Version: cmp.Or(image.Version, image.Release)}
	if image.PXE {
		base := s.baseURL(r)
		files, rootfs := base+PathISO+boottoken.InPath(versioned(image), req.Claims.Token)+"/files/", ""
		if image.Rootfs {
			rootfs = files + "rootfs"
		}
		i.Kernel = &ipxe.Kernel{
			URL: files + "kernel" + claimed(req, b), Initrd: files + "initramfs" + claimed(req, b),
			Args: decide.KernelArgs(image, b.Args, base, rootfs, req.Claims.Token),
		}
		return i
	}
	if image.External == nil && image.HTTP {
		i.URL = s.baseURL(r) + PathISO + boottoken.InPath(versioned(image), req.Claims.Token) + ".iso" + claimed(req, b)
		return i
	}
	i.Target = &ipxe.Target{}
	if e := image.External; e != nil {
		i.Target.Host, i.Target.Port = ipxe.ParsePortal(e.Portal)
		i.Target.IQN, i.Target.LUN = e.IQN, int(e.LUN)
	} else {
		i.Target.Host, i.Target.Port, i.Target.IQN = s.opts.Boot.Portal, s.opts.Boot.PortalPort,
			boottoken.InTarget(image.IQN, req.Claims.Token)
		if i.Target.Host == "" {
			i.Target.Host = localAddr(r).Addr().WithZone("").String()
		}
		// iPXE opens all portals, and boots nothing if it cannot resolve the name of one.
		if _, err := netip.ParseAddr(i.Target.Host); err == nil && s.opts.Boot.Others != nil {
			i.Target.Others = s.opts.Boot.Others(image.Ref)
		}
	}
	return i
}

// versionLength is the length of a version of an image: the first digits of its digest.
const versionLength = 12

// versioned returns the name of an image in paths: with its version where another image
// may replace it while the machine boots.
func versioned(image *model.Image) string {
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
	case b.FoundBy == "mac" && slices.Contains(b.Host.MACs, claims.MAC):
		return "?mac=" + claims.MAC.String()
	case b.FoundBy == "mac":
		return "?mac=" + claims.OtherMAC
	case b.FoundBy == "uuid":
		return "?uuid=" + claims.UUID
	case b.FoundBy == "hostname":
		return "?hostname=" + claims.Hostname
	}
	return ""
}
