package template

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/wording"
	"glowplug/internal/store/natsd"
)

const (
	// maxFailures bounds the hosts, and maxWarnings the warnings, in a status.
	maxFailures = 10
	// maxNamed bounds the further hosts that a message names.
	maxNamed    = 4
	maxWarnings = 10
)

// summary is the content of a template's status.
type summary struct {
	config   *model.Config
	pending  int
	hosts    v1.RenderedHosts
	version  string
	warnings []string
	// layers are those of the template; failure says why no host has a result.
	layers  []v1.LayerStatus
	failure string
}

// summaryLocked sums up the outcomes.
func (s *state) summaryLocked() *summary {
	sum := &summary{config: s.config, pending: s.pending, layers: s.task.Layers(), failure: s.task.Failure}
	sum.warnings = slices.Clone(s.task.Warnings)
	var failed, warned []Ref
	versions := map[string]bool{}
	for ref, o := range s.hosts {
		switch {
		case o.failed:
			failed = append(failed, ref)
		case !o.pending:
			versions[o.ignitionVersion] = true
		}
		if len(o.warnings) > 0 {
			warned = append(warned, ref)
		}
	}
	sum.hosts.Total, sum.hosts.Failed = int64(len(s.hosts)), int64(len(failed))
	sum.hosts.Ready = sum.hosts.Total - sum.hosts.Failed - int64(s.pending)
	if len(versions) == 1 {
		sum.version = slices.Collect(maps.Keys(versions))[0]
	}
	slices.SortFunc(failed, Ref.Compare)
	for _, ref := range failed[:min(len(failed), maxFailures)] {
		sum.hosts.Failures = append(sum.hosts.Failures, v1.HostFailure{Host: ref.String(), Message: s.hosts[ref].message})
	}
	if len(warned) > 0 {
		// Mostly all hosts have the same warnings.
		first := slices.MinFunc(warned, Ref.Compare)
		for _, w := range s.hosts[first].warnings {
			if len(sum.warnings) == maxWarnings {
				more := len(s.hosts[first].warnings) - maxWarnings
				sum.warnings = append(sum.warnings, fmt.Sprintf("and %d more for this host", more))
				break
			}
			sum.warnings = append(sum.warnings, "for host "+first.String()+": "+w)
		}
	}
	return sum
}

// reconcileStatus writes the status of a template.
func (c *Controller) reconcileStatus(ctx context.Context, ref Ref) (time.Duration, error) {
	c.mu.Lock()
	s := c.templates[ref]
	if s == nil {
		c.mu.Unlock()
		return 0, nil
	}
	if wait := c.pauses.status - time.Since(s.written); wait > 0 {
		c.mu.Unlock()
		return wait, nil
	}
	s.written, s.dirty = time.Now(), false
	sum := s.summaryLocked()
	c.mu.Unlock()

	config, before, err := c.update(ctx, sum, sum.applyTo)
	switch {
	case apierrors.IsRequestEntityTooLargeError(err):
		return controller.RefusedPause, c.refused(ctx, sum, err)
	case err != nil:
		return 0, err
	}
	c.report(config, before)
	if sum.pending > 0 {
		return c.pauses.progress, nil
	}
	return 0, nil
}

// update writes the status of a summary's template where apply reports a change. It returns
// the written template, or nil, and the result that it had before.
func (c *Controller) update(ctx context.Context, sum *summary, apply func(*v1.IgnitionConfig) bool) (
	out *v1.IgnitionConfig, before result, err error) {
	key := "/ignitionconfigs/" + sum.config.Ref.String()
	out, err = controller.Update(ctx, c.opts.Store, key, func(config *v1.IgnitionConfig) error {
		before = result{config.Status.Phase, config.Status.ErrorMessage}
		if !sum.isOf(config) || !apply(config) {
			return controller.ErrUnchanged
		}
		s := &config.Status
		v1.SetReady(&s.Conditions, s.Phase, controller.ClipMessage(s.ErrorMessage), true, s.ObservedGeneration, time.Now())
		return nil
	})
	return out, before, err
}

// refused writes a short status, which says that the store refuses the whole one.
func (c *Controller) refused(ctx context.Context, sum *summary, cause error) error {
	message := fmt.Sprintf("its status cannot be stored: %v: %s, or make the template smaller", cause, natsd.PayloadRemedy)
	config, before, err := c.update(ctx, sum, func(config *v1.IgnitionConfig) bool {
		status := &config.Status
		if status.Phase == v1.PhaseError && status.ErrorMessage == message {
			return false
		}
		status.Phase, status.ErrorMessage, status.Warnings, status.Hosts = v1.PhaseError, message, nil, nil
		status.ObservedGeneration = config.Generation
		return true
	})
	if err != nil && !apierrors.IsRequestEntityTooLargeError(err) {
		return err
	}
	if err != nil { // there is no space for the message
		config = &v1.IgnitionConfig{Status: v1.IgnitionConfigStatus{Phase: v1.PhaseError, ErrorMessage: message}}
		config.Namespace, config.Name, config.UID = sum.config.Namespace, sum.config.Name, types.UID(sum.config.UID)
	}
	c.report(config, before)
	return nil
}

// isOf reports whether a config is the one of the summary, and has not changed.
func (s *summary) isOf(config *v1.IgnitionConfig) bool {
	return string(config.UID) == s.config.UID && config.Generation == s.config.Generation &&
		config.Compiled != nil && config.Compiled.Template && config.Compiled.Hash == s.config.Hash
}

// applyTo writes the summary into a status, and reports whether that changes it.
func (s *summary) applyTo(config *v1.IgnitionConfig) bool {
	before := config.Status.DeepCopy()
	s.put(config)
	if apiequality.Semantic.DeepEqual(before, &config.Status) {
		return false
	}
	if s.pending == 0 {
		config.Status.LastCompiled = time.Now().UTC().Format(time.RFC3339)
	}
	return true
}

// put writes the summary into a status. Where the newest source is not a readable template,
// the phase stays Error, and the counts are those of the last readable one. A template that can be
// rendered for a host is Ready: those that it fails for are named, and have a condition.
func (s *summary) put(config *v1.IgnitionConfig) {
	status := &config.Status
	hosts := s.hosts
	if s.pending > 0 && status.Phase != v1.PhasePending && status.Hosts != nil && status.Hosts.Total == hosts.Total {
		return // after a start the status has the results of another server
	}
	status.Hosts = &hosts
	if config.Compiled.Generation != config.Generation || s.pending > 0 {
		return
	}
	status.ObservedGeneration, status.CompiledGeneration = config.Generation, config.Generation
	status.IgnitionVersion, status.Warnings, status.Layers = s.version, s.warnings, s.layers
	status.Phase, status.ErrorMessage = v1.PhaseReady, ""
	switch {
	case s.failure != "":
		status.Phase, status.ErrorMessage = v1.PhaseError, s.failure
	case s.hosts.Failed > 0:
		status.ErrorMessage = s.failures()
		if s.hosts.Failed == s.hosts.Total {
			status.Phase = v1.PhaseError
		}
	}
}

// failures returns a sentence about the hosts that the template fails for.
func (s *summary) failures() string {
	first := s.hosts.Failures[0]
	verb := "fail"
	if s.hosts.Failed == 1 {
		verb = "fails"
	}
	text := fmt.Sprintf("%d of %d hosts %s: host %s: %s", s.hosts.Failed, s.hosts.Total, verb, first.Host, first.Message)
	others := s.hosts.Failures[1:]
	if len(others) == 0 {
		return text
	}
	var names []string
	for _, other := range others[:min(len(others), maxNamed)] {
		names = append(names, other.Host)
	}
	text += "; and " + strings.Join(names, ", ")
	if more := s.hosts.Failed - 1 - int64(len(names)); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ", see status.hosts.failures"
}

// result is what a status says of a rendering for all hosts.
type result struct{ phase, message string }

func (r result) fails() bool { return r.message != "" }

// report makes an event of a phase that has changed, of the first host that the template fails for,
// and of an error of the layers, which ends the rendering for every host. The number of hosts that
// fail is no event.
func (c *Controller) report(config *v1.IgnitionConfig, before result) {
	if c.opts.Recorder == nil || config == nil {
		return
	}
	now := result{config.Status.Phase, config.Status.ErrorMessage}
	isSame := now.fails() && before.fails() || now.phase == before.phase && now.fails() == before.fails()
	if isSame && (now.message == before.message || !compile.IsOfLayers(now.message)) {
		return
	}
	object := controller.ConfigReference(config)
	switch status := &config.Status; {
	case now.fails():
		c.opts.Recorder.Record(object, v1.EventWarning, "RenderFailed", cmp.Or(config.OpenMessage(), "it cannot be rendered"))
	case status.Phase == v1.PhaseReady && status.Hosts != nil:
		c.opts.Recorder.Record(object, v1.EventNormal, "Rendered", "rendered for "+wording.Count(int(status.Hosts.Ready), "host", "hosts"))
	}
}
