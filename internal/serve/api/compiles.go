package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/budget"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/report"
)

// compilePath answers with what a config compiles to that is not stored.
const compilePath = "/api/v1/compile"

const (
	// maxCompiles bounds the compilations for this path that run at a time: of each user one, so that writes have the
	// other processors.
	maxCompiles = 2
	// compileWait bounds the wait for the compilations of others, and compileTimeout the whole.
	compileWait    = 5 * time.Second
	compileTimeout = 10 * time.Second
	// maxFindings bounds the findings of an answer.
	maxFindings = 1000
	// unnamed is the name of a config that is sent without one.
	unnamed = "unnamed"
)

// The reasons why a compilation has no answer.
var (
	errNewer = failed(http.StatusConflict, metav1.StatusReasonConflict,
		"a newer request of yours to compile a config has taken the place of this one")
	errCompilesBusy = apierrors.NewTooManyRequests("other configs are being compiled, perhaps an earlier one of yours: "+
		"try again", 1)
	errCompileTimeout = apierrors.NewTimeoutError(fmt.Sprintf("the config is not compiled within %s: try again, or apply it "+
		"and watch status.phase", compileTimeout), 1)
)

// compiles answers POST /api/v1/compile: it does with a config what its creation would do, and stores nothing.
type compiles struct {
	opts     *Options
	strategy rest.RESTCreateStrategy
	secrecy  *secrecy
	decoder  runtime.Decoder
	// turns are those of the compilations that run, and limit bounds a request.
	turns *budget.Budget
	limit time.Duration

	mu sync.Mutex
	// newest ends the wait of the newest request of each user.
	newest map[string]*context.CancelCauseFunc
}

func newCompiles(opts *Options) *compiles {
	kind := configKind(opts)
	info, _ := runtime.SerializerInfoForMediaType(jsonAndYAML.SupportedMediaTypes(), runtime.ContentTypeJSON)
	return &compiles{
		opts: opts, strategy: kind.mainStrategy(), secrecy: kind.secrecy,
		decoder: jsonAndYAML.DecoderToVersion(info.StrictSerializer,
			schema.GroupVersion{Group: v1.GroupName, Version: runtime.APIVersionInternal}),
		turns: budget.New(maxCompiles, compileWait), limit: compileTimeout, newest: map[string]*context.CancelCauseFunc{},
	}
}

func (c *compiles) handler() http.Handler {
	return only(http.MethodPost, "compile", func(w http.ResponseWriter, r *http.Request) {
		answer, err := c.answer(r)
		if err != nil {
			fail(w, r, err)
			return
		}
		responsewriters.WriteRawJSON(http.StatusOK, answer, w)
	})
}

func (c *compiles) answer(r *http.Request) (*compile.Verdict, error) {
	config, err := c.read(r)
	if err != nil {
		return nil, err
	}
	who, err := c.authorize(r.Context(), config.Namespace)
	if err != nil {
		return nil, err
	}
	ctx, leave := c.takeOver(r.Context(), who)
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, errCompileTimeout)
	defer cancel()
	turn := c.turns.Open(cmp.Or(clientOf(ctx), who))
	if err := turn.Hold(ctx, 1); err != nil {
		turn.Close()
		return nil, whyUncompiled(ctx, err)
	}
	answer, err := untilEnd(ctx, turn.Close, func() (*compile.Verdict, error) { return c.compile(ctx, config) })
	if err != nil {
		return nil, whyUncompiled(ctx, err)
	}
	return answer, nil
}

// whyUncompiled returns the error for the client of a compilation that has failed or was not waited for.
func whyUncompiled(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(err, budget.ErrBusy):
		return errCompilesBusy
	case errors.As(cause, new(apierrors.APIStatus)):
		return cause
	}
	return err
}

// read returns the config in the body of a request.
func (c *compiles) read(r *http.Request) (*v1.IgnitionConfig, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	kind := kinds.Of(kinds.IgnitionConfigs)
	wanted := v1.SchemeGroupVersion.WithKind(kind.Name)
	obj, given, err := c.decoder.Decode(body, &wanted, kind.New())
	if err != nil {
		return nil, apierrors.NewBadRequest("the body is no " + kind.Name + " in JSON: " + clip(err.Error(), maxLibraryText))
	}
	config, ok := obj.(*v1.IgnitionConfig)
	if !ok {
		return nil, apierrors.NewBadRequest("the body is a " + given.Kind + ", want an " + kind.Name)
	}
	config.Namespace, config.Name = cmp.Or(config.Namespace, v1.NamespaceDefault), cmp.Or(config.Name, unnamed)
	if err := checkName(kinds.Namespaces, config.Namespace, nil); err != nil {
		return nil, err
	}
	return config, c.secrecy.restore(config, nil)
}

// authorize returns the name of the user of a request, and an error if he may not create configs in a namespace. The
// filters of the API do not know the namespace, which is in the body (compileAuthorizer).
func (c *compiles) authorize(ctx context.Context, namespace string) (string, error) {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return "", errNoUser
	}
	attributes := attributesOf(who, "create", kinds.IgnitionConfigs, "", namespace, "")
	if allows(ctx, c.opts.rights.authorizer, attributes) {
		return who.GetName(), nil
	}
	addTrace(ctx, func(t *traceData) { t.admitted = false })
	return "", responsewriters.ForbiddenStatusError(attributes, "")
}

// takeOver ends the wait of the user's former request, and returns a context that ends with his next one. leave is
// called at the end of the request.
func (c *compiles) takeOver(ctx context.Context, who string) (_ context.Context, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if former := c.newest[who]; former != nil {
		(*former)(errNewer)
	}
	c.newest[who] = &cancel
	return ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.newest[who] == &cancel {
			delete(c.newest, who)
		}
		cancel(nil)
	}
}

// compile does with a config what its creation would do before it is stored.
func (c *compiles) compile(ctx context.Context, config *v1.IgnitionConfig) (*compile.Verdict, error) {
	began := time.Now()
	a := &attempt{dryRun: true, collected: true, checks: true}
	ctx = request.WithNamespace(context.WithValue(ctx, attemptKey{}, a), config.Namespace)
	rest.FillObjectMetaSystemFields(config)
	if err := rest.BeforeCreate(c.strategy, ctx, config); err != nil {
		return nil, err
	}
	if a.failure != nil {
		return nil, a.failure
	}
	if len(a.found) > 0 && c.opts.rights.concealsFindings(ctx, config) {
		a.found = report.Report{{Severity: report.Warning, Message: v1.ConfidentialFindings}}
	}
	status := &config.Status
	return &compile.Verdict{
		Phase: status.Phase, Findings: boundFindings(a.found), Hash: status.ConfigHash, Size: status.CompiledSize,
		IgnitionVersion: status.IgnitionVersion, Milliseconds: time.Since(began).Milliseconds(),
	}, nil
}

// boundFindings cuts findings to maxFindings and counts the others. JSON has a list also where there are none.
func boundFindings(found report.Report) report.Report {
	if len(found) <= maxFindings {
		return append(report.Report{}, found...)
	}
	more := report.Finding{Severity: report.Warning, Message: fmt.Sprintf("and %d more findings", len(found)-maxFindings)}
	if found[maxFindings:].HasError() {
		more.Severity = report.Error
	}
	return append(found[:maxFindings:maxFindings], more)
}

// compileAuthorizer lets every user send a config to be compiled: who may not create it in its namespace is refused
// once that is read.
func compileAuthorizer(all authorizer.Authorizer) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (
		authorizer.Decision, string, error,
	) {
		if a.GetPath() == compilePath && a.GetVerb() == "create" {
			return authorizer.DecisionAllow, "the namespace is in the body", nil
		}
		return all.Authorize(ctx, a)
	})
}
