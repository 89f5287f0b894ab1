package machine

import (
	"context"
	"io"
	"net/http"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/hardware"
	"glowplug/internal/domain/model"
)

// Inspections stores what machines report of their hardware.
type Inspections interface {
	// Report returns nil once the hardware of the host is durable, and a fault.Error otherwise.
	Report(ctx context.Context, host *model.Host, details *v1.HardwareDetails) error
}

// serveHardware answers PathHardware: the machine reports its hardware, under the rules by which it
// reports that it is provisioned. After a 200 the report is durable.
func (s bootPath) serveHardware(w *response, r *http.Request, req *request) result {
	host, res := s.reporter(w, r, req, decide.Hardware)
	if host == nil {
		return res
	}
	document, err := io.ReadAll(http.MaxBytesReader(w, r.Body, hardware.MaxDocument+1))
	if err != nil {
		return w.fail(res, fault.New(fault.Malformed, "the report could not be read, or is larger than 1 MiB"))
	}
	details, err := hardware.Read(document)
	if err != nil {
		return w.fail(res, fault.New(fault.Malformed, "the report cannot be used: "+err.Error()))
	}
	if err := s.opts.Boot.Inspections.Report(r.Context(), host, details); err != nil {
		return w.fail(res, fault.Of(err))
	}
	if s.opts.Journal != nil {
		s.opts.Journal.Reported(host)
	}
	w.sentence(http.StatusOK, "the hardware of host "+host.Ref.String()+" is stored")
	return res
}

// reporter returns the known host that a report comes from. Without one it has answered.
func (s bootPath) reporter(w *response, r *http.Request, req *request, endpoint string) (*model.Host, result) {
	if failure := s.readClaims(r, req); failure != nil {
		return nil, w.fail(result{}, failure)
	}
	req.Type = endpoint
	b := s.opts.Boot.Booter.Boot(&req.Request)
	s.record(r, req, &b.Identity)
	res := result{ConfigDecision: decide.ConfigDecision{Identity: b.Identity}}
	switch {
	case b.Err != nil && (b.Err.Kind == fault.Refused || b.Err == decide.ClaimsLimited):
		return nil, w.fail(res, b.Err)
	case b.Host == nil:
		return nil, w.fail(res, fault.New(fault.NoMatch,
			"this machine is no known host; create a BareMetalHost with its address"))
	}
	return b.Host, res
}
