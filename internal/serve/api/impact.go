package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	v1 "glowplug/api/v1"
	"glowplug/internal/budget"
	"glowplug/internal/domain/impact"
	"glowplug/internal/domain/model"
)

const (
	// maxChanges bounds the objects of a change set.
	maxChanges = 1000
	// maxPredictions bounds the predictions that run at a time: of each user one, so that machines that boot
	// have the other processors, and a user does not wait for the slow templates of another one.
	maxPredictions = 2
	// predictionWait bounds the wait for other predictions, collectTimeout the dry runs of a change
	// set, impactTimeout a prediction, and mergeTimeout the merges of layers in it.
	predictionWait = 5 * time.Second
	collectTimeout = 20 * time.Second
	impactTimeout  = 15 * time.Second
	mergeTimeout   = 8 * time.Second
)

// impacts predicts the impact of writes on hosts.
type impacts struct {
	opts *Options
	// turns are those of the predictions that run.
	turns  *budget.Budget
	meters meters
}

func newImpacts(opts *Options) *impacts {
	return &impacts{opts: opts, turns: budget.New(maxPredictions, predictionWait), meters: newMeters()}
}

// begin waits for the turn of a prediction for the user of a request, until ctx ends, and returns what ends it;
// nil: the time was not enough.
func (p *impacts) begin(ctx context.Context) (end func()) {
	turn := p.turns.Open(clientOf(ctx))
	if turn.Hold(ctx, 1) != nil {
		turn.Close()
		return nil
	}
	return turn.Close
}

// untilEnd returns what compute returns, or the error of ctx where that takes longer: the compilation of a rendered
// template cannot be broken off. end is called once compute has ended.
func untilEnd[T any](ctx context.Context, end func(), compute func() (T, error)) (value T, err error) {
	type outcome struct {
		value    T
		err      error
		panicked any
	}
	done := make(chan outcome, 1)
	go func() {
		defer end()
		var made outcome
		defer func() {
			made.panicked = recover()
			done <- made
		}()
		made.value, made.err = compute()
	}()
	select {
	case made := <-done:
		if made.panicked != nil {
			panic(made.panicked) // in the goroutine of the request, whose filter logs it
		}
		return made.value, made.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// changeRequest is the body of a request for an impact.
type changeRequest struct {
	// Apply are objects that are applied, and Delete objects that are deleted, of which kind,
	// metadata.name and metadata.namespace count.
	Apply  []json.RawMessage `json:"apply,omitempty"`
	Delete []json.RawMessage `json:"delete,omitempty"`
}

const wantedBody = `{"apply": [objects], "delete": [objects]}`

// handler answers POST /api/v1/impact: what a set of changes does to the hosts. The objects are
// applied as a dry run through api, with the rights of the caller. With ?show=true the answer has
// the differences of the bytes, and with ?fieldManager=NAME the objects are applied as by that
// manager. With ?replace=true they replace those that are stored, and a field that they lack is removed.
func (p *impacts) handler(api http.Handler, resolver request.RequestInfoResolver) http.Handler {
	if p.opts.Decider == nil {
		return nil
	}
	return only(http.MethodPost, "impact", func(w http.ResponseWriter, r *http.Request) {
		answer, err := p.answer(r, &dryRunner{api, resolver, r})
		if err != nil {
			fail(w, r, err)
			return
		}
		writeJSON(w, answer)
	})
}

func (p *impacts) answer(r *http.Request, runner *dryRunner) (*impact.Report, error) {
	var body changeRequest
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil {
		return nil, apierrors.NewBadRequest("the body is not " + wantedBody + ": " + err.Error())
	}
	if decoder.More() {
		return nil, apierrors.NewBadRequest("the body has more than one value: want " + wantedBody)
	}
	switch n := len(body.Apply) + len(body.Delete); {
	case n == 0:
		return nil, apierrors.NewBadRequest("the change set has no object: want " + wantedBody)
	case n > maxChanges:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the change set has %d objects, the limit is %d", n, maxChanges))
	}
	ctx, cancel := context.WithTimeout(r.Context(), collectTimeout)
	defer cancel()
	all, err := runner.collect(ctx, &body)
	if err != nil {
		return nil, err
	}
	end := p.begin(r.Context())
	if end == nil {
		return nil, apierrors.NewTooManyRequests("other impacts are being computed: try again", 1)
	}
	ctx, cancel = context.WithTimeout(r.Context(), impactTimeout)
	defer cancel()
	answer, err := untilEnd(ctx, end, func() (*impact.Report, error) {
		return p.predict(ctx, all, r.URL.Query().Get("show") == "true")
	})
	if err != nil {
		return nil, apierrors.NewTimeoutError(err.Error(), 1)
	}
	return answer, nil
}

// predict returns the impact of a set of changes.
func (p *impacts) predict(ctx context.Context, all []change, show bool) (*impact.Report, error) {
	view := p.opts.Inventory.View()
	set := changesOf(all, view, p.opts.MaxIgnition)
	result, err := p.compute(budget.NewPacer(ctx, p.opts.Asked), set, view, show)
	if err != nil {
		return nil, err
	}
	p.warnRelated(ctx, all, view.With(&set.after))
	answer := &impact.Report{Objects: []impact.Object{}, Impact: result, Disks: p.disks(ctx, result)}
	for _, c := range all {
		object := c.object()
		answer.Objects = append(answer.Objects, impact.Object{
			Kind: kindName(object), Namespace: object.GetNamespace(), Name: object.GetName(), Change: c.word(),
		})
	}
	return answer, nil
}

// compute computes the impact of a set of changes.
func (p *impacts) compute(pace *budget.Pacer, set *changeSet, view model.View, show bool) (*impact.Impact, error) {
	merging, cancel := context.WithTimeout(pace.Context(), mergeTimeout)
	defer cancel()
	return impact.New(pace.Context(), impact.Options{
		Decider: p.opts.Decider, Before: view.With(&set.before), Changes: &set.after, Order: set.order,
		Secrets: set.secretsOf(p.opts.Secrets), Pending: set.pending, Merging: merging, Pause: pace.Pause, Show: show,
		MayShow: func(view model.View, c *model.Config) bool {
			return p.opts.rights.mayGetResult(pace.Context(), view, c.Ref, c)
		},
	})
}

// warnRelated adds the warnings for the objects of a change set that depend on other objects. after has all of them.
func (p *impacts) warnRelated(ctx context.Context, all []change, after model.View) {
	var sentences []string
	for _, c := range all {
		if config, ok := c.now.(*v1.IgnitionConfig); ok && p.opts.rights.concealsFindings(ctx, config) {
			continue
		}
		sentences = append(sentences, p.opts.warningsOn(after, c)...)
	}
	for i, text := range sentences {
		if !slices.Contains(sentences[:i], text) { // a host and its config may both be in the set
			warning.AddWarning(ctx, "", text)
		}
	}
}

// word says what a change does to its object.
func (c *change) word() string {
	switch {
	case c.now == nil:
		return "deleted"
	case c.old == nil:
		return "created"
	case isSame(c.old, c.now):
		return "unchanged"
	}
	return "configured"
}
