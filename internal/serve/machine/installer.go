package machine

import (
	"net/http"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/match"
)

// paramInstall is the parameter with which a live system of Flatcar asks for the config that installs its system;
// model.OwnArgs puts it into the kernel arguments.
const paramInstall = "install"

// installer is what a machine receives that installs its system by a config.
const installer = "installer config"

// isInstaller reports whether the answer to a request is the config of an installer.
func isInstaller(r *http.Request, req *request) bool {
	return req.Type == decide.Ignition && !req.Claims.Raw && r.URL.Query().Get(paramInstall) == "true"
}

// serveInstaller answers the live system of a host with the config that installs the host's system. That has nothing of
// the config of the host, which the installer fetches from the URL in it, and does not count as served.
func (s *Server) serveInstaller(w *response, r *http.Request, req *request, res result) result {
	config, host := res.Config, res.Host
	res.Config, res.Tier = nil, match.None
	device := ""
	if host != nil {
		device = s.opts.Decider.InstallDevice(host)
	}
	if device == "" {
		return w.fail(res, fault.New(fault.Refused, "there is no disk to install config "+config.Ref.String()+
			" on: the host names none any more; boot the machine again"))
	}
	query := r.URL.Query()
	query.Del(paramInstall)
	url := bootPath{s}.baseURL(r) + r.URL.Path
	if len(query) > 0 {
		url += "?" + query.Encode()
	}
	body, reason := ignition.Installer(req.Accept, req.UserAgent, req.Claims.Spec, device, url)
	if body == nil {
		return w.fail(res, fault.New(fault.NotAcceptable, "config "+config.Ref.String()+" is not installed: "+reason))
	}
	res.boots = installer
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Vary", "Accept, User-Agent")
	w.write(http.StatusOK, ignitionType, body)
	return res
}
