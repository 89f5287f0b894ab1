package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/streams"
)

// maxAnswer bounds an answer of the API: a ConfigMap of 1 MiB, escaped.
const maxAnswer = 16 << 20

// mark writes in the status of a stream's releases which one is current.
func (b *Bulletin) mark(ctx context.Context, stream string) error {
	releases := b.opts.Library.Releases(stream)
	for i, s := range releases {
		current := i == len(releases)-1
		if s.Marked == current {
			continue
		}
		patch := fmt.Sprintf(`{"status":{"current":%t}}`, current)
		code, err := b.call(ctx, http.MethodPatch, "/api/v1/streamreleases/"+url.PathEscape(s.Name)+"/status", []byte(patch), nil)
		if err != nil && code != http.StatusNotFound {
			return err
		}
		if current {
			b.opts.Logger.Info("a release has become current", "stream", stream, "release", s.Release)
		}
	}
	return nil
}

// maxTries bounds how often a ConfigMap that others write at the same time is read
// again at once.
const maxTries = 5

// postMap writes the current release into the ConfigMap, where it is another than
// the one there.
func (b *Bulletin) postMap(ctx context.Context) error {
	for range maxTries {
		code, err := b.writeMap(ctx)
		if code != http.StatusConflict {
			return err
		}
	}
	return fmt.Errorf("ConfigMap %s/%s is being written by others", b.opts.Namespace, b.opts.Name)
}

// writeMap does it once; a conflict means that somebody else was faster.
//
// The order of the reads is what keeps a replica that is behind from posting an old
// release: the releases are read after the ConfigMap that is replaced, so that what
// they say is no older than what it says.
func (b *Bulletin) writeMap(ctx context.Context) (int, error) {
	collection := "/api/v1/namespaces/" + url.PathEscape(b.opts.Namespace) + "/configmaps"
	one := collection + "/" + url.PathEscape(b.opts.Name)
	cm := v1.ConfigMap{}
	code, err := b.call(ctx, http.MethodGet, one, nil, &cm)
	missing := code == http.StatusNotFound
	if err != nil && !missing {
		return code, err
	}
	if err := b.opts.Fresh(ctx); err != nil {
		return 0, err
	}
	current := b.opts.Library.Current(b.shown(&cm))
	if current == nil || cm.Data[KeyStream] == string(current.Document.Raw) && cm.Data[KeyRelease] == current.Release &&
		cm.Annotations[AnnotationStream] == current.Stream {
		return 0, nil // a ConfigMap outlives the releases of its stream: better old than none
	}
	if cm.Immutable != nil && *cm.Immutable {
		b.immutable(&cm)
		return 0, nil
	}
	if pause := b.dispute.write(current.Document.Hash, current.Release, time.Now()); pause > 0 {
		b.opts.Logger.Warn("somebody else writes the ConfigMap of CoreOS boot images too: a server with another --coreos-configmap-stream, or another program",
			"configmap", b.opts.Namespace+"/"+b.opts.Name, "pause", pause)
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(pause):
		}
	}
	fill(&cm, current)
	method, path, wants := http.MethodPut, one, "replaced"
	if missing {
		cm.Name, cm.Namespace = b.opts.Name, b.opts.Namespace
		method, path, wants = http.MethodPost, collection, "created"
	}
	body, err := json.Marshal(&cm)
	if err != nil {
		return 0, err
	}
	code, err = b.call(ctx, method, path, body, nil)
	if code == http.StatusNotFound { // deleted between the two
		return http.StatusConflict, err
	}
	if err == nil {
		b.opts.Logger.Info("the ConfigMap of CoreOS boot images was "+wants, "configmap", b.opts.Namespace+"/"+b.opts.Name,
			"stream", current.Stream, "release", current.Release)
	}
	return code, err
}

// shown is the stream that the ConfigMap is to show. It never turns to another by
// itself: who acts on it would take that for a release.
func (b *Bulletin) shown(cm *v1.ConfigMap) string {
	if b.opts.Stream != "" {
		return b.opts.Stream
	}
	if before := cm.Annotations[AnnotationStream]; before != "" {
		return before
	}
	return b.opts.Library.First()
}

// fill puts a release into a ConfigMap. Keys of others stay.
func fill(cm *v1.ConfigMap, current *streams.Stored) {
	cm.TypeMeta = metav1.TypeMeta{Kind: "ConfigMap", APIVersion: v1.SchemeGroupVersion.String()}
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
	if cm.Annotations == nil {
		cm.Annotations = map[string]string{}
	}
	cm.Data[KeyStream] = string(current.Document.Raw)
	cm.Data[KeyRelease] = current.Release
	cm.Annotations[AnnotationStream] = current.Stream
	delete(cm.BinaryData, KeyStream)
	delete(cm.BinaryData, KeyRelease)
}

// immutable says, once for each version, that the ConfigMap cannot be kept in step.
func (b *Bulletin) immutable(cm *v1.ConfigMap) {
	version := string(cm.UID) + cm.ResourceVersion
	if b.refused == version {
		return
	}
	b.refused = version
	const sentence = "it is immutable and shows an old release: delete it, and it is made anew"
	b.opts.Logger.Warn("the ConfigMap of CoreOS boot images is not kept in step", "configmap", b.opts.Namespace+"/"+b.opts.Name, "error", sentence)
	if b.opts.Recorder != nil {
		b.opts.Recorder.Record(v1.ObjectReference{
			Kind: "ConfigMap", APIVersion: v1.SchemeGroupVersion.String(), Namespace: cm.Namespace, Name: cm.Name, UID: string(cm.UID),
		}, v1.EventWarning, "NotInStep", sentence)
	}
}

// call makes a request of the API and reads the answer into out. An answer that is
// no success is an error, with the server's sentence.
func (b *Bulletin) call(ctx context.Context, method, path string, body []byte, out any) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, b.opts.Base+path+"?fieldManager=glowplug", bytes.NewReader(body))
	if method == http.MethodGet {
		req, err = http.NewRequestWithContext(ctx, method, b.opts.Base+path, http.NoBody)
	}
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := b.opts.API.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, err
	}
	if resp.StatusCode >= 300 {
		var status metav1.Status
		if json.Unmarshal(answer, &status) != nil || status.Message == "" {
			status.Message = "the API answered " + resp.Status
		}
		return resp.StatusCode, fmt.Errorf("%s %s: %s", method, path, status.Message)
	}
	if out != nil {
		err = json.Unmarshal(answer, out)
	}
	return resp.StatusCode, err
}
