package api

import (
	"net/http"
	"strings"
	"testing"

	v1 "glowplug/api/v1"
)

// TestRejectBrokenConfigs: a source that does not compile, or of which that is not known, is
// refused where one of flag and annotations asks for it.
func TestRejectBrokenConfigs(t *testing.T) {
	const broken = "variant: fcos\nversion: 9.9.9\n"
	annotated := func(value, source string) *v1.IgnitionConfig {
		object := config("x", source)
		object.Annotations = map[string]string{v1.AnnotationRejectBroken: value}
		return object
	}
	for _, tt := range []struct {
		name    string
		flag    bool
		value   string
		source  string
		pending bool
		status  int
		says    string
	}{
		{"by default it is stored", false, "false", broken, false, http.StatusCreated, ""},
		{"the annotation", false, "true", broken, false, http.StatusUnprocessableEntity, `spec.config: Invalid value: line 2:10`},
		{"the flag", true, "false", broken, false, http.StatusUnprocessableEntity, "spec.config: Invalid value: line 2:10"},
		{"a good source", true, "true", goodSource, false, http.StatusCreated, ""},
		{"not known in time", true, "true", goodSource, true, http.StatusUnprocessableEntity, "is not compiled yet"},
		{"another value", false, "yes", goodSource, false, http.StatusUnprocessableEntity, "supported values"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := start(t, func(opts *Options) { opts.RejectBrokenConfigs = tt.flag })
			a.status.pending.Store(tt.pending)
			got := a.must(tt.status, "POST", configs, annotated(tt.value, tt.source))
			if !strings.Contains(string(got.body), tt.says) {
				t.Errorf("%s\nwant %q", got.body, tt.says)
			}
		})
	}
}
