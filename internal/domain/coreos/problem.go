package coreos

import (
	"fmt"
	"regexp"
	"strings"
)

// Problem is something wrong with a document.
type Problem struct {
	// Path is where, such as architectures.x86_64.artifacts.metal.formats.iso; empty:
	// the document as a whole.
	Path    string
	Message string
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// Problems are the problems of a document, in the order of its paths.
type Problems []Problem

// maxShown and maxProblems bound the text of an error, and the search.
const (
	maxShown    = 5
	maxProblems = 100
)

func (p Problems) Error() string {
	var all []string
	for i, problem := range p {
		if i == maxShown {
			all = append(all, fmt.Sprintf("and %d more", len(p)-i))
			break
		}
		all = append(all, problem.String())
	}
	return strings.Join(all, "; ")
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// child is the path of a member: a.b, or a[b.c] where its key is not plain.
func child(path, key string) string {
	if len(key) > 64 {
		key = strings.ToValidUTF8(key[:64], "") + "…"
	}
	switch {
	case !plainKey.MatchString(key):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}
