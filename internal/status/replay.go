package status

import (
	"bytes"
	"context"
	"net/http"
	"net/url"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/impact"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/wording"
)

// The parts of what a machine was given.
const (
	PartConfig = "config"
	PartScript = "script"
)

// Marked says what the marks are in bytes that have some (IsMarked).
const Marked = "marks stand for what is secret; the machine received the values"

// Replay returns the bytes that a machine was given at a boot: its config or its script.
func Replay(ctx context.Context, ask Ask, namespace, name, part string) (body []byte, err error) {
	err = ask(ctx, client.Request{
		Resource: kinds.Boots, Namespace: namespace, Name: name, Subresource: "rendered", Query: url.Values{"part": {part}},
	}, &body)
	return body, err
}

// IsMarked reports whether a config or a script has marks in place of its secrets. In a data URL or in JSON
// the first character of a mark may be written in another way.
func IsMarked(body []byte) bool {
	for _, mark := range []string{"<token>", "<chap ", "<secret:", `\u003csecret:`, "%3Csecret%3A", "%3Csecret:"} {
		if bytes.Contains(body, []byte(mark)) {
			return true
		}
	}
	return false
}

// Compare returns what differs between two boots: also in their configs, as far as these are kept and the user may
// read them.
func Compare(ctx context.Context, ask Ask, before, after *v1.Boot) (*wording.BootDifference, error) {
	difference := wording.DifferenceOf(before, after)
	was, is := before.Config, after.Config
	if was == nil || is == nil || was.Hash == is.Hash {
		return difference, nil
	}
	var bodies [2][]byte
	for i, boot := range []*v1.Boot{before, after} {
		body, err := Replay(ctx, ask, boot.Namespace, boot.Name, PartConfig)
		if code := client.Code(err); code == http.StatusNotFound || code == http.StatusForbidden {
			difference.Note = err.Error()
			return difference, nil
		}
		if err != nil {
			return nil, err
		}
		bodies[i] = body
	}
	difference.Content = impact.DifferenceOf(bodies[0], bodies[1])
	return difference, nil
}
