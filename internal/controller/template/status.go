package template

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/natsd"
	"glowplug/internal/store/snapshot"
)

const (
	// maxFailures bounds the hosts, and maxWarnings the warnings, in a status.
	maxFailures = 10
	maxWarnings = 10
)

// summary is what a status says of a roster.
type summary struct {
	config   *snapshot.Config
	pending  int
	hosts    v1.RenderedHosts
	version  string
	warnings []string
	// layers are what the template is merged over, failure is why it cannot be for
	// any host.
	layers  []v1.LayerStatus
	failure string
}

func (r *roster) summary() *summary {
	s := &summary{config: r.config, pending: r.pending, layers: r.task.Layers(), failure: r.task.Failure}
	s.warnings = append(s.warnings, r.task.Warnings...)
	s.hosts.Total, s.hosts.Failed = int64(len(r.hosts)), int64(r.failed)
	s.hosts.Ready = s.hosts.Total - s.hosts.Failed - int64(r.pending)
	var bad, warned []Ref
	versions := map[string]bool{}
	for ref, res := range r.hosts {
		switch {
		case res.state == failed:
			bad = append(bad, ref)
		case res.state == ready:
			versions[res.version] = true
		}
		if len(res.warnings) > 0 {
			warned = append(warned, ref)
		}
	}
	if len(versions) == 1 {
		s.version = slices.Collect(maps.Keys(versions))[0]
	}
	slices.SortFunc(bad, Ref.Compare)
	for _, ref := range bad[:min(len(bad), maxFailures)] {
		s.hosts.Failures = append(s.hosts.Failures, v1.HostFailure{Host: ref.String(), Message: r.hosts[ref].message})
	}
	if len(warned) > 0 {
		// What the template brings about is the same for all of them, mostly.
		first := slices.MinFunc(warned, Ref.Compare)
		for _, w := range r.hosts[first].warnings {
			if len(s.warnings) == maxWarnings {
				s.warnings = append(s.warnings, fmt.Sprintf("and %d more for this host", len(r.hosts[first].warnings)-maxWarnings))
				break
			}
			s.warnings = append(s.warnings, "for host "+first.String()+": "+w)
		}
	}
	return s
}

// writeNext writes one status; it tells whether there may be more.
func (f *Follower) writeNext(ctx context.Context) bool {
	ref, shutdown := f.queue.Get()
	if shutdown {
		return false
	}
	defer f.queue.Done(ref)
	f.mu.Lock()
	r := f.rosters[ref]
	if r == nil {
		f.mu.Unlock()
		f.queue.Forget(ref)
		return true
	}
	if wait := f.gaps.status - time.Since(r.written); wait > 0 {
		f.mu.Unlock()
		f.queue.AddAfter(ref, wait) // several changes come to one write
		return true
	}
	r.written, r.dirty = time.Now(), false
	s := r.summary()
	f.mu.Unlock()
	if err := f.write(ctx, s); err != nil && ctx.Err() == nil {
		f.opts.Logger.Warn("the status of a template could not be written; trying again", "config", ref.String(), "error", err)
		f.queue.AddRateLimited(ref)
		return true
	}
	f.queue.Forget(ref)
	if s.pending > 0 {
		f.queue.AddAfter(ref, f.gaps.progress)
	}
	return true
}

// errSame says that there is nothing to write.
var errSame = errors.New("the status says so already, or is of another template")

func (f *Follower) write(ctx context.Context, s *summary) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	var was string
	out := &v1.IgnitionConfig{}
	err := f.opts.Store.GuaranteedUpdate(ctx, "/ignitionconfigs/"+s.config.Ref.String(), out, false, nil,
		storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			config := obj.(*v1.IgnitionConfig)
			before := config.Status.DeepCopy()
			was = before.Phase
			if !s.is(config) {
				return nil, errSame
			}
			s.put(config)
			if apiequality.Semantic.DeepEqual(before, &config.Status) {
				return nil, errSame
			}
			if s.pending == 0 {
				config.Status.LastCompiled = time.Now().UTC().Format(time.RFC3339)
			}
			return config, nil
		}), nil)
	switch {
	case errors.Is(err, errSame), storage.IsNotFound(err):
		return nil
	case apierrors.IsRequestEntityTooLargeError(err):
		return f.refused(ctx, s, err)
	case err != nil:
		return err
	}
	f.record(out, was)
	return nil
}

// refused says in the status of a template, in few words, that the store does not take
// the whole of it, and tries again later.
func (f *Follower) refused(ctx context.Context, s *summary, cause error) error {
	f.queue.AddAfter(s.config.Ref, refusedRetry)
	message := fmt.Sprintf("its status cannot be stored: %v: %s, or make the template smaller", cause, natsd.PayloadRemedy)
	told := &v1.IgnitionConfig{}
	told.Namespace, told.Name, told.UID = s.config.Namespace, s.config.Name, types.UID(s.config.UID)
	told.Status = v1.IgnitionConfigStatus{Phase: v1.PhaseError, ErrorMessage: message, Hosts: &v1.RenderedHosts{}}
	was := ""
	err := f.opts.Store.GuaranteedUpdate(ctx, "/ignitionconfigs/"+s.config.Ref.String(), &v1.IgnitionConfig{}, false, nil,
		storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			config := obj.(*v1.IgnitionConfig)
			status := &config.Status
			if !s.is(config) || status.Phase == v1.PhaseError && status.ErrorMessage == message {
				return nil, errSame
			}
			was = status.Phase
			status.Phase, status.ErrorMessage, status.Warnings, status.Hosts = v1.PhaseError, message, nil, nil
			status.ObservedGeneration = config.Generation
			return config, nil
		}), nil)
	if errors.Is(err, errSame) || storage.IsNotFound(err) {
		return nil
	}
	if err != nil && !apierrors.IsRequestEntityTooLargeError(err) {
		return err
	}
	f.record(told, was) // also where there is no room even for the sentence
	return nil
}

// is tells whether a config is the one of the summary, as it was.
func (s *summary) is(config *v1.IgnitionConfig) bool {
	return string(config.UID) == s.config.UID && config.Generation == s.config.Generation &&
		config.Compiled != nil && config.Compiled.Template && config.Compiled.Hash == s.config.Hash
}

// put writes the summary into a status. Where the newest source is no template that
// can be read, the phase goes on to say so; what is counted is of the last good one.
func (s *summary) put(config *v1.IgnitionConfig) {
	status := &config.Status
	hosts := s.hosts
	if s.pending > 0 && status.Phase != v1.PhasePending && status.Hosts != nil && status.Hosts.Total == hosts.Total {
		return // a server that was started has yet to render what another one has
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
		status.Phase, status.ErrorMessage = v1.PhaseError, s.failures()
	}
}

// failures is the summary of what fails, in a sentence.
func (s *summary) failures() string {
	first := s.hosts.Failures[0]
	verb := "fail"
	if s.hosts.Failed == 1 {
		verb = "fails"
	}
	text := fmt.Sprintf("%d of %d hosts %s: host %s: %s", s.hosts.Failed, s.hosts.Total, verb, first.Host, first.Message)
	if s.hosts.Failed > 1 {
		text += "; and others, see status.hosts.failures"
	}
	return text
}

// record makes an event where the phase has changed.
func (f *Follower) record(config *v1.IgnitionConfig, was string) {
	status := &config.Status
	if f.opts.Recorder == nil || status.Phase == was || status.Hosts == nil {
		return
	}
	switch status.Phase {
	case v1.PhaseReady:
		f.opts.Recorder.Record(objectOf(config), v1.EventNormal, "Rendered", fmt.Sprintf("rendered for %d hosts", status.Hosts.Total))
	case v1.PhaseError:
		f.opts.Recorder.Record(objectOf(config), v1.EventWarning, "RenderFailed", cmp.Or(status.ErrorMessage, "it cannot be rendered"))
	}
}
