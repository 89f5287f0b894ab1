package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/ignition"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/remote"
)

// renderedREST is the subresource rendered of a config. GET returns the Ignition config with
// the configs that it refers to, as a machine has it in the end. ?spec=3.2.0 is for a machine
// that reads up to this version; ?host=NAME or ?host=NAMESPACE/NAME is for the host for which
// a template is rendered.
type renderedREST struct {
	readBytes
	configs *registry.Store
	opts    *Options
	seconds *prometheus.HistogramVec
}

func newRendered(configs *registry.Store, opts *Options) *renderedREST {
	seconds := promauto.With(opts.Registerer).NewHistogramVec(prometheus.HistogramOpts{
		Name:    "glowplug_render_duration_seconds",
		Help:    "Time that rendering a config took with those that it names, by the status of the answer.",
		Buckets: []float64{.001, .01, .1, .5, 1, 5, 10, 30},
	}, []string{"code"})
	seconds.WithLabelValues("200")
	return &renderedREST{readBytes{kinds.IgnitionConfigs}, configs, opts, seconds}
}

// readBytes is the part that subresources of a resource have in common whose GET returns bytes and no object.
type readBytes struct{ resource string }

func (b readBytes) New() runtime.Object { return newObject(b.resource) }

// Destroy does nothing: the main endpoint owns the store.
func (readBytes) Destroy() {}

func (readBytes) ConnectMethods() []string { return []string{http.MethodGet} }

func (readBytes) NewConnectOptions() (runtime.Object, bool, string) { return nil, false, "" }

// writeBytes answers with bytes.
func writeBytes(w http.ResponseWriter, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(body) // the client may have gone away
}

// Connect implements rest.Connecter. The answer is not an object, so the handler writes it.
func (r *renderedREST) Connect(ctx context.Context, name string, _ runtime.Object,
	responder rest.Responder) (http.Handler, error) {
	config, err := r.compiled(ctx, name)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		query := req.URL.Query()
		body, stale, failure := r.final(req.Context(), config, query.Get("host"), query.Get("spec"))
		if failure != nil {
			responder.Error(failure)
			return
		}
		sum := sha256.Sum256(body)
		if stale {
			w.Header().Set("X-Glowplug-Stale", "true")
		}
		w.Header().Set("ETag", `"sha256:`+hex.EncodeToString(sum[:])+`"`)
		writeBytes(w, ignition.MediaType, body)
	}), nil
}

// compiled returns the Ignition config with a name, which is compiled.
func (r *renderedREST) compiled(ctx context.Context, name string) (*v1.IgnitionConfig, error) {
	obj, err := r.configs.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	config := obj.(*v1.IgnitionConfig)
	if err := r.mayRead(ctx, config); err != nil {
		return nil, err
	}
	compiled := config.Compiled != nil && len(config.Compiled.Artifact) > 0
	switch {
	case config.Spec.Type != v1.TypeIgnition:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s is a %s: only a config of type %s names others", name,
			config.Spec.Type, v1.TypeIgnition))
	case !compiled && config.Status.Phase == v1.PhaseError:
		return nil, failed(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
			"the config has no compiled result of type "+config.Spec.Type+": "+config.Status.ErrorMessage)
	case !compiled:
		return nil, apierrors.NewServiceUnavailable("spec.config is still compiling: ask again in a moment")
	}
	return config, nil
}

// mayRead returns an error if the user of a request may not read what machines are served of a config:
// the authorization of the request has only found that he may get the config itself.
func (r *renderedREST) mayRead(ctx context.Context, config *v1.IgnitionConfig) error {
	ref := model.Ref{Namespace: config.Namespace, Name: config.Name}
	if r.opts.rights.mayGetResult(ctx, r.opts.Inventory.View(), ref, model.ConfigFrom(config)) {
		return nil
	}
	return apierrors.NewForbidden(schema.GroupResource{Resource: kinds.IgnitionConfigs + "/" + subresourceRendered}, config.Name,
		errors.New("the config, or a layer of it, is confidential: that needs the verb get on "+
			kinds.IgnitionConfigs+"/"+subresourceRendered))
}

// final returns a config as a machine has it in the end: for a host, which a template needs, and
// for a machine that reads up to a version, "" for any. stale says that an older rendering is
// served.
func (r *renderedREST) final(ctx context.Context, config *v1.IgnitionConfig, host, spec string) (body []byte,
	stale bool, failure *apierrors.StatusError) {
	began, name, artifact := time.Now(), config.Namespace+"/"+config.Name, config.Compiled.Artifact
	stale, revealed := config.Status.Phase == v1.PhaseError, false
	if config.Compiled.Template {
		rendered, failure := r.forHost(ctx, config, host)
		if failure != nil {
			return nil, false, failure
		}
		artifact, stale, revealed = rendered.Artifact, rendered.Stale, rendered.Revealed
	}
	body, err := r.opts.Render(ctx, name, artifact, spec)
	took := time.Since(began)
	if err != nil {
		failure := renderFailure(err)
		r.seconds.WithLabelValues(strconv.Itoa(int(failure.ErrStatus.Code))).Observe(took.Seconds())
		reason := failure.ErrStatus.Message
		if revealed { // the message may quote the value of a Secret, in a URL for example
			reason = "it is left out, since the config has values of Secrets"
		}
		r.opts.Logger.Info("a config could not be rendered", "config", name, "error", reason, "duration", took)
		return nil, false, failure
	}
	r.seconds.WithLabelValues("200").Observe(took.Seconds())
	return body, stale, nil
}

// forHost returns a template as it is rendered for a host.
func (r *renderedREST) forHost(ctx context.Context, config *v1.IgnitionConfig, name string) (*model.Config,
	*apierrors.StatusError) {
	if name == "" {
		return nil, apierrors.NewBadRequest(config.Name +
			" is a template: name the host to render it for with --host NAME of glowplug render, or ?host=NAME in the URL")
	}
	ref := hostRef(config, name)
	if err := r.mayGetHost(ctx, ref); err != nil {
		return nil, err
	}
	view := r.opts.Inventory.View()
	template, host := view.Config(model.Ref{Namespace: config.Namespace, Name: config.Name}), view.Host(ref)
	switch {
	case host == nil:
		return nil, apierrors.NewNotFound(v1.Resource(kinds.BareMetalHosts), ref.String())
	case template == nil || !template.Template || r.opts.Templates == nil:
		return nil, apierrors.NewServiceUnavailable("the template has just changed: ask again in a moment")
	}
	reveal := r.opts.rights.mayGet(ctx, kinds.Secrets, "", config.Namespace, "")
	rendered, failure := r.opts.Templates.Render(template, host, nil, decide.Asker{Gone: ctx.Done(), Reveal: reveal,
		Last: true})
	if failure != nil {
		return nil, apierrors.NewServiceUnavailable(failure.Sentence)
	}
	if len(rendered.Secrets) > 0 {
		warning.AddWarning(ctx, "", "placeholders stand for the values of Secrets: to see these needs the verb get on "+
			"all secrets of the namespace "+config.Namespace)
	}
	return rendered, nil
}

// mayGetHost returns an error if the user of a request may not get a host, whose facts a rendering shows.
func (r *renderedREST) mayGetHost(ctx context.Context, ref model.Ref) *apierrors.StatusError {
	if r.opts.rights.mayGet(ctx, kinds.BareMetalHosts, "", ref.Namespace, ref.Name) {
		return nil
	}
	return apierrors.NewForbidden(kinds.Of(kinds.BareMetalHosts).GroupResource(), ref.Name,
		errors.New("the host is one that you may not get, in the namespace "+ref.Namespace))
}

// hostRef returns the host with a name, which is in the namespace of the config unless the name
// has another one.
func hostRef(config *v1.IgnitionConfig, name string) model.Ref {
	if namespace, other, ok := strings.Cut(name, "/"); ok {
		return model.Ref{Namespace: namespace, Name: other}
	}
	return model.Ref{Namespace: config.Namespace, Name: name}
}

// renderFailure returns the Status of a config that cannot be rendered.
func renderFailure(err error) *apierrors.StatusError {
	var e *remote.Error
	if !errors.As(err, &e) {
		return apierrors.NewInternalError(err)
	}
	code, reason := int32(http.StatusUnprocessableEntity), metav1.StatusReasonInvalid
	switch e.Kind {
	case remote.Malformed:
		return apierrors.NewBadRequest("spec: " + e.Message)
	case remote.Refused:
		code, reason = http.StatusForbidden, metav1.StatusReasonForbidden
	case remote.Failed:
		code, reason = http.StatusBadGateway, "FetchFailed"
	case remote.TimedOut:
		code, reason = http.StatusGatewayTimeout, metav1.StatusReasonTimeout
	case remote.Unfit:
		code, reason = http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable
	}
	return failed(code, reason, e.Error())
}

func failed(code int32, reason metav1.StatusReason, message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: message}}
}
