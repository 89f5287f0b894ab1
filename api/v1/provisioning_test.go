package v1

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestProvisioning(t *testing.T) {
	window := func(d time.Duration) *Provisioning { return &Provisioning{Window: &metav1.Duration{Duration: d}} }
	fetches := func(n int32) *Provisioning { return &Provisioning{MaxFetches: &n} }
	for name, tt := range map[string]struct {
		mode string
		p    *Provisioning
		want string
	}{
		"two hours":             {"", window(2 * time.Hour), ""},
		"no limit":              {BootForever, window(0), ""},
		"a year":                {BootOnce, window(366 * 24 * time.Hour), ""},
		"too long":              {BootOnce, window(367 * 24 * time.Hour), "spec.provisioning.window"},
		"too short":             {BootOnce, window(time.Millisecond), "spec.provisioning.window"},
		"negative":              {BootOnce, window(-time.Hour), "spec.provisioning.window"},
		"each boot needs it":    {BootForever, window(time.Hour), "spec.provisioning.window"},
		"twenty":                {"", fetches(20), ""},
		"any number":            {BootForever, fetches(0), ""},
		"too many":              {BootOnce, fetches(1001), "spec.provisioning.maxFetches"},
		"less than none":        {BootOnce, fetches(-1), "spec.provisioning.maxFetches"},
		"each boot fetches one": {BootForever, fetches(5), "spec.provisioning.maxFetches"},
	} {
		host := &BareMetalHost{ObjectMeta: meta, Spec: BareMetalHostSpec{BootMode: tt.mode, Provisioning: tt.p}}
		if got := strings.Join(paths(ValidateBareMetalHost(host)), " "); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestProvisioningOfANamespace(t *testing.T) {
	for annotation, values := range map[string]map[string]bool{
		AnnotationWindow:     {"2h": true, "0s": true, "90": false, "two hours": false, "-1h": false, "9000h": false},
		AnnotationToken:      {"true": true, "false": true, "yes": false},
		AnnotationMaxFetches: {"20": true, "0": true, "-1": false, "1001": false, "many": false, "1.5": false},
	} {
		for value, isValid := range values {
			annotations := map[string]string{annotation: value}
			n := &Namespace{ObjectMeta: metav1.ObjectMeta{Name: "g10", Annotations: annotations}}
			if errs := ValidateNamespace(n); (len(errs) == 0) != isValid {
				t.Errorf("%s=%s: %v", annotation, value, errs)
			}
			p := ProvisioningOf(n.Annotations)
			if isSet := p.Window != nil || p.MaxFetches != nil || p.Token != nil; isSet != isValid {
				t.Errorf("%s=%s: %+v", annotation, value, p)
			}
		}
	}
	all := map[string]string{AnnotationWindow: "", AnnotationMaxFetches: "", AnnotationToken: ""}
	if keys := UnknownAnnotations(all); len(keys) > 0 {
		t.Error(keys)
	}
}
