package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/responsewriter"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/rbac"
)

// applyManager is the field manager of objects that are applied without one.
const applyManager = "glowplug-apply"

// dryRunner finds out what requests would change, by dry runs for the sender of a request.
type dryRunner struct {
	api      http.Handler
	resolver request.RequestInfoResolver
	sender   *http.Request
}

// collect returns the changes of a change set.
func (d *dryRunner) collect(ctx context.Context, body *changeRequest) (all []change, err error) {
	asked := d.sender.URL.Query()
	method, query := http.MethodPatch, url.Values{"force": {"true"}, "fieldValidation": {"Strict"}}
	if asked.Get("replace") == "true" {
		method = http.MethodPut
		query.Del("force")
	}
	query.Set("fieldManager", cmp.Or(asked.Get("fieldManager"), applyManager))
	for i, text := range body.Apply {
		c, err := d.run(ctx, method, text, query)
		if err != nil {
			return nil, placed(err, fmt.Sprintf("apply[%d]", i))
		}
		all = append(all, c)
	}
	for i, text := range body.Delete {
		c, err := d.run(ctx, http.MethodDelete, text, url.Values{})
		if err != nil {
			return nil, placed(err, fmt.Sprintf("delete[%d]", i))
		}
		all = append(all, c)
	}
	return all, nil
}

// run sends the dry run of a request for an object, and returns what it would change.
func (d *dryRunner) run(ctx context.Context, method string, text []byte, query url.Values) (change, error) {
	var named metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &named); err != nil {
		return change{}, apierrors.NewBadRequest("it is no object: " + withoutQuotes(err.Error()))
	}
	where, err := pathOf(&named)
	if err != nil {
		return change{}, err
	}
	query.Set("dryRun", "All")
	a := &attempt{dryRun: true, collected: true}
	ctx = context.WithValue(audit.WithAuditContext(unaudited{ctx}), attemptKey{}, a)
	if method == http.MethodDelete {
		text = nil
	}
	r, err := http.NewRequestWithContext(ctx, method, where+"?"+query.Encode(), bytes.NewReader(text))
	if err != nil {
		return change{}, apierrors.NewBadRequest(err.Error())
	}
	r.Header.Set("Accept", "application/json")
	switch method {
	case http.MethodPatch:
		r.Header.Set("Content-Type", string(types.ApplyYAMLPatchType))
	case http.MethodPut:
		r.Header.Set("Content-Type", runtime.ContentTypeJSON)
	}
	r.RemoteAddr, r.Host, r.RequestURI = d.sender.RemoteAddr, d.sender.Host, r.URL.RequestURI()
	info, err := d.resolver.NewRequestInfo(r)
	if err != nil {
		return change{}, apierrors.NewBadRequest(err.Error())
	}
	answer := responsewriter.NewInMemoryResponseWriter()
	d.api.ServeHTTP(answer, r.WithContext(request.WithRequestInfo(ctx, info)))
	name := named.Kind + " " + named.Name
	switch {
	case answer.RespCode() >= http.StatusBadRequest:
		return change{}, failureOf(name, answer.RespCode(), answer.Data())
	case !a.isNoted:
		return change{}, apierrors.NewBadRequest(name + ": an object of this kind cannot be a part of a change set")
	}
	return a.change, nil
}

// pathOf returns the path of an object. One without a namespace is in the namespace default.
func pathOf(named *metav1.PartialObjectMetadata) (string, error) {
	kind := kinds.InManifests(named.Kind)
	if kind == nil {
		return "", apierrors.NewBadRequest(fmt.Sprintf("the server has no kind %q", clip(named.Kind, maxTraced)))
	}
	root, isName := "/api/v1", apivalidation.ValidateNameFunc(nil)
	if kind.Group != v1.GroupName {
		root, isName = "/apis/"+kind.GroupVersion.String(), rbac.ValidateName
	}
	if err := checkName(kind.Resource, named.Name, isName); err != nil {
		return "", err
	}
	if !kind.Namespaced {
		return path.Join(root, kind.Resource, named.Name), nil
	}
	namespace := cmp.Or(named.Namespace, v1.NamespaceDefault)
	if err := checkName(kinds.Namespaces, namespace, nil); err != nil {
		return "", err
	}
	return path.Join(root, "namespaces", namespace, kind.Resource, named.Name), nil
}

// placed adds to an error what it is about, such as an object of the change set.
func placed(err error, place string) error {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return err
	}
	failure := status.Status()
	failure.Message = place + ": " + failure.Message
	return &apierrors.StatusError{ErrStatus: failure}
}

// failureOf returns the error in an answer about an object.
func failureOf(name string, code int, body []byte) error {
	var status metav1.Status
	if json.Unmarshal(body, &status) != nil || status.Code == 0 {
		status = failed(int32(code), metav1.StatusReasonUnknown, clip(string(body), maxTraced)).ErrStatus
	}
	return placed(&apierrors.StatusError{ErrStatus: status}, name)
}

// kindName returns the kind of an object of this server.
func kindName(o object) string {
	found, _, err := scheme.ObjectKinds(o)
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[0].Kind
}

// isSame reports whether a write changes nothing but what the server notes of each write.
func isSame(old, now object) bool {
	copies := [2]object{old.DeepCopyObject().(object), now.DeepCopyObject().(object)}
	for _, o := range copies {
		o.SetManagedFields(nil)
		o.SetResourceVersion("")
	}
	return apiequality.Semantic.DeepEqual(copies[0], copies[1])
}
