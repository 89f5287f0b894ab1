package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/boots"
)

// replayREST is the subresource rendered of a boot: what the machine was given. GET returns the bytes of its config,
// and with ?part=script those of its script, without what was secret in them.
type replayREST struct {
	readBytes
	boots *registry.Store
	opts  *Options
}

// Connect implements rest.Connecter. The answer is not an object, so the handler writes it.
func (r *replayREST) Connect(ctx context.Context, name string, _ runtime.Object,
	responder rest.Responder) (http.Handler, error) {
	obj, err := r.boots.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	boot := obj.(*v1.Boot)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		contentType, name, err := r.part(req.Context(), boot, req.URL.Query().Get("part"))
		var body []byte
		if err == nil {
			body, err = r.content(req.Context(), boot, name)
		}
		if err != nil {
			responder.Error(err)
			return
		}
		_, hash, _ := strings.Cut(name, " ")
		w.Header().Set("ETag", `"`+hash+`"`)
		writeBytes(w, contentType, body)
	}), nil
}

// part returns the type and the name of the part of a boot that a user asks for, and may read.
func (r *replayREST) part(ctx context.Context, boot *v1.Boot, part string) (contentType, name string, err error) {
	config := boot.Config
	switch {
	case part == "script" && boot.Script != "":
		return "text/plain; charset=utf-8", model.ScriptContent(boot), nil
	case part == "script":
		return "", "", notReplayed(boot, "its machine received no script")
	case part != "" && part != "config":
		return "", "", apierrors.NewBadRequest(fmt.Sprintf("part: %q is neither config nor script", part))
	case config == nil || config.Hash == "":
		return "", "", notReplayed(boot, "its machine received no config")
	}
	namespace, plain, _ := strings.Cut(config.Name, "/")
	if !r.opts.rights.mayGet(ctx, kinds.IgnitionConfigs, subresourceRendered, namespace, plain) {
		return "", "", apierrors.NewForbidden(schema.GroupResource{Resource: kinds.Boots + "/" + subresourceRendered}, boot.Name,
			errors.New("its config is "+config.Name+": that needs the verb get on "+kinds.IgnitionConfigs+"/"+
				subresourceRendered+" in the namespace "+namespace))
	}
	contentType = "text/plain; charset=utf-8"
	if config.Version != "" {
		contentType = ignition.MediaType
	}
	return contentType, model.ConfigContent(boot), nil
}

// content returns the stored content with a name.
func (r *replayREST) content(ctx context.Context, boot *v1.Boot, name string) ([]byte, error) {
	err := boots.ErrNotKept
	var content []byte
	if r.opts.BootContent != nil {
		content, err = r.opts.BootContent(ctx, name)
	}
	switch {
	case errors.Is(err, boots.ErrNotKept):
		return nil, notReplayed(boot, "what its machine received is not kept: it was given less than a second ago, longer ago "+
			"than --keep-boots, before a release that keeps it, or there was no room ("+name+")")
	case err != nil:
		return nil, apierrors.NewServiceUnavailable(err.Error())
	}
	return content, nil
}

func notReplayed(boot *v1.Boot, why string) error {
	return failed(http.StatusNotFound, metav1.StatusReasonNotFound, "boot "+boot.Namespace+"/"+boot.Name+
		" cannot be replayed: "+why)
}
