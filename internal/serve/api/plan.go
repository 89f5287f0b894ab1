package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/disk"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/plan"
)

// planREST is the subresource plan of a config: what Ignition does with the config on the machine of
// ?host=NAME or ?host=NAMESPACE/NAME, whose disks are those of status.hardware. Without a host the
// disks are unknown. The answer is JSON, or text with ?output=text or for a client that accepts
// text/plain alone.
type planREST struct {
	readBytes
	rendered *renderedREST
	hosts    *registry.Store
}

// Connect implements rest.Connecter. The answer is not an object, so the handler writes it.
func (p *planREST) Connect(ctx context.Context, name string, _ runtime.Object, responder rest.Responder) (http.Handler,
	error) {
	config, err := p.rendered.compiled(ctx, name)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		result, err := p.plan(req.Context(), config, req.URL.Query().Get("host"))
		if err != nil {
			responder.Error(err)
			return
		}
		var body bytes.Buffer
		contentType := "application/json"
		if wantsText(req) {
			contentType = "text/plain; charset=utf-8"
			err = result.Fprint(&body, plan.Style{Width: planWidth})
		} else {
			encoder := json.NewEncoder(&body)
			encoder.SetIndent("", "  ")
			err = encoder.Encode(result)
		}
		if err != nil {
			responder.Error(apierrors.NewInternalError(err))
			return
		}
		writeBytes(w, contentType, body.Bytes())
	}), nil
}

// planWidth is the width of a plan as text.
const planWidth = 100

func wantsText(req *http.Request) bool {
	return req.URL.Query().Get("output") == "text" || strings.HasPrefix(req.Header.Get("Accept"), "text/plain")
}

func (p *planREST) plan(ctx context.Context, config *v1.IgnitionConfig, host string) (*plan.Plan, error) {
	var facts *disk.Facts
	var of string
	if host != "" {
		ref := hostRef(config, host)
		if err := p.rendered.mayGetHost(ctx, ref); err != nil {
			return nil, err
		}
		obj, err := p.hosts.Get(genericapirequest.WithNamespace(ctx, ref.Namespace), ref.Name, &metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, apierrors.NewNotFound(v1.Resource(kinds.BareMetalHosts), ref.String())
		}
		if err != nil {
			return nil, err
		}
		of = ref.String()
		if hardware := obj.(*v1.BareMetalHost).Status.Hardware; hardware != nil {
			if facts, err = disk.OfHardware(hardware); err != nil {
				return nil, failed(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
					"status.hardware of the BareMetalHost "+of+": "+err.Error())
			}
		}
	}
	body, _, failure := p.rendered.final(ctx, config, host, "")
	if failure != nil {
		return nil, failure
	}
	result, err := plan.New(body, facts)
	if err != nil {
		return nil, failed(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
			"the config cannot be planned: "+err.Error())
	}
	result.Config, result.Host = config.Namespace+"/"+config.Name, of
	return result, nil
}
