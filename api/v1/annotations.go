package v1

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// AnnotationStream, on a ConfigMap of a stream, is the name of the stream.
const AnnotationStream = "glowplug.dev/stream"

// AnnotationStepTimeout, on an ISCSICdrom, is the time that a step of a boot of the image takes at most, as 90m.
const AnnotationStepTimeout = "glowplug.dev/boot-step-timeout"

// MinStepTimeout is the least time.
const MinStepTimeout = time.Minute

var errStepTimeout = errors.New("want a duration of 1m or more, as 90m")

// StepTimeoutOf returns the time in the annotations of an image; 0: it names none.
func StepTimeoutOf(annotations map[string]string) time.Duration {
	timeout, _ := parseStepTimeout(annotations[AnnotationStepTimeout])
	return timeout
}

func parseStepTimeout(s string) (time.Duration, error) {
	timeout, err := time.ParseDuration(s)
	if err != nil || timeout < MinStepTimeout {
		return 0, errStepTimeout
	}
	return timeout, nil
}

// annotations are those with a meaning for the server.
var annotations = []string{
	AnnotationInstallDevice, AnnotationIPXE, AnnotationIsland, AnnotationIsolated, AnnotationMaxFetches,
	AnnotationRearm, AnnotationRejectBroken, AnnotationStepTimeout, AnnotationStream, AnnotationToken, AnnotationWindow,
}

// AnnotationsHint says which annotations there are, for a key of UnknownAnnotations.
var AnnotationsHint = "check the spelling; the annotations of glowplug are " + strings.Join(annotations, ", ")

// UnknownAnnotations returns the keys, in order, that begin like those of the server and are
// none of them. They have no effect, and are probably misspelled.
func UnknownAnnotations(of map[string]string) (keys []string) {
	for key := range of {
		if strings.HasPrefix(key, "glowplug.dev/") && !slices.Contains(annotations, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
