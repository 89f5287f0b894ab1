package v1

import (
	"errors"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The annotations on a Namespace that are the defaults of spec.provisioning of its hosts.
const (
	AnnotationWindow     = "glowplug.dev/provisioning-window"
	AnnotationMaxFetches = "glowplug.dev/provisioning-max-fetches"
	AnnotationToken      = "glowplug.dev/provisioning-token"
)

// Provisioning limits when, how often and to whom the config of a machine is served. A field
// that is not set has the value of the namespace's annotation.
type Provisioning struct {
	// window is the time after the creation of the host, or after it was armed again, in which
	// the machine receives its config, such as 2h. It ends when the machine reports that it is
	// provisioned. 0s is no limit. At most 8784h. With bootMode forever there can be no limit.
	// +optional
	Window *metav1.Duration `json:"window,omitempty"`
	// maxFetches is how often the config is served after the host was created or armed again.
	// Repeated requests from one address in one boot count once. 0 is no limit. At most 1,000.
	// With bootMode forever there can be no limit.
	// +optional
	MaxFetches *int32 `json:"maxFetches,omitempty"`
	// token is true where the machine receives its config and its image only with the token of
	// its boot: a text that nobody can guess, which the server puts into the boot script and
	// into the URLs in the kernel arguments of the image.
	// +optional
	Token *bool `json:"token,omitempty"`
}

// ProvisioningStatus is the use of the time in which the machine receives its config.
type ProvisioningStatus struct {
	// opened is the time at which the host was created or armed again.
	Opened metav1.Time `json:"opened"`
	// closed is the time at which the machine reported that it is provisioned.
	// +optional
	Closed *metav1.Time `json:"closed,omitempty"`
	// fetches is how often the config was served since opened.
	// +optional
	Fetches int64 `json:"fetches,omitempty"`
	// firstClient is the address that received it first.
	// +optional
	FirstClient string `json:"firstClient,omitempty"`
	// tokenIssued is the time at which the token in the last script that boots the image was
	// issued. Earlier tokens are refused.
	// +optional
	TokenIssued *metav1.Time `json:"tokenIssued,omitempty"`
	// boot is the number of the boot, as in bootCount, in which it was last counted.
	// +optional
	Boot int64 `json:"boot,omitempty"`
	// clients are the addresses that have received it in this boot, at most 16.
	// +optional
	// +listType=atomic
	Clients []string `json:"clients,omitempty"`
}

// Limits of Provisioning.
const (
	maxWindow     = 366 * 24 * time.Hour
	maxMaxFetches = 1000
)

var (
	errWindow  = errors.New("want a duration from 1s to 8784h, such as 2h, or 0s for no limit")
	errFetches = errors.New("want a number from 0 (no limit) to 1000")
)

// ProvisioningOf returns the defaults in the annotations of a namespace. An invalid value is as
// if it were not set: the API refuses it.
func ProvisioningOf(annotations map[string]string) (p Provisioning) {
	if window, err := parseWindow(annotations[AnnotationWindow]); err == nil {
		p.Window = &metav1.Duration{Duration: window}
	}
	if n, err := parseFetches(annotations[AnnotationMaxFetches]); err == nil {
		p.MaxFetches = &n
	}
	if token, err := strconv.ParseBool(annotations[AnnotationToken]); err == nil {
		p.Token = &token
	}
	return p
}

func parseWindow(s string) (time.Duration, error) {
	window, err := time.ParseDuration(s)
	if err != nil || !isWindow(window) {
		return 0, errWindow
	}
	return window, nil
}

func isWindow(d time.Duration) bool { return d == 0 || d >= time.Second && d <= maxWindow }

func parseFetches(s string) (int32, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxMaxFetches {
		return 0, errFetches
	}
	return int32(n), nil
}
