package v1

import (
	"slices"
	"strings"
)

// AnnotationStream, on a ConfigMap of a stream, is the name of the stream.
const AnnotationStream = "glowplug.dev/stream"

// annotations are those with a meaning for the server.
var annotations = []string{
	AnnotationIPXE, AnnotationIsland, AnnotationIsolated, AnnotationMaxFetches, AnnotationRearm, AnnotationRejectBroken,
	AnnotationStream, AnnotationToken, AnnotationWindow,
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
