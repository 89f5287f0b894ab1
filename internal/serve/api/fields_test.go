package api

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestFieldSelectors(t *testing.T) {
	a := start(t)
	for name, spec := range map[string]string{
		"one": `{"bootMACAddress":"52-54-00-AB-CD-01","ip":"192.0.2.1","image":"images/a",` +
			`"systemUUID":"4C4C4544-0042-3510-8056-b4c04f4e3132"}`,
		"two": `{"bootMACAddress":"52:54:00:ab:cd:02","ip":"2001:db8::2"}`,
	} {
		a.must(http.StatusCreated, "POST", hosts,
			`{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"`+name+`"},"spec":`+spec+`}`)
	}
	a.must(http.StatusCreated, "POST", cdroms,
		`{"apiVersion":"v1","kind":"ISCSICdrom","metadata":{"name":"a"},"spec":{"isoFile":"a.iso"}}`)
	for path, want := range map[string]int{
		hosts + "?fieldSelector=spec.bootMACAddress=525400abcd01":                     1,
		hosts + "?fieldSelector=spec.bootMACAddress=5254.00AB.CD02":                   1,
		hosts + "?fieldSelector=spec.ip=192.0.2.1,spec.image=images/a":                1,
		hosts + "?fieldSelector=spec.ip=2001:DB8:0::2":                                1,
		hosts + "?fieldSelector=spec.systemUUID=4c4c4544-0042-3510-8056-b4c04f4e3132": 1,
		hosts + "?fieldSelector=spec.systemUUID=44454c4c-4200-1035-8056-b4c04f4e3132": 1,
		hosts + "?fieldSelector=spec.image!=images/a":                                 1,
		hosts + "?fieldSelector=status.state=Available":                               2,
		hosts + "?fieldSelector=status.state=Booting":                                 0,
		hosts + "?fieldSelector=metadata.name=one,metadata.namespace=g10":             1,
		cdroms + "?fieldSelector=status.phase=Pending":                                1,
		cdroms + "?fieldSelector=status.phase=Ready":                                  0,
		"/api/v1/namespaces?fieldSelector=status.phase=Active,metadata.name%3Dg10":    1,
	} {
		if got := strings.Count(string(a.must(http.StatusOK, "GET", path, nil).body), `"uid"`); got != want {
			t.Errorf("%s: %d objects, want %d", path, got, want)
		}
	}
	for _, path := range []string{
		hosts + "?fieldSelector=spec.x=y", hosts + "?fieldSelector=status.phase=Ready", configs + "?fieldSelector=spec.ip=1",
	} {
		refused := a.must(http.StatusBadRequest, "GET", path, nil).status(t)
		if !strings.Contains(refused.Message, "field label not supported") {
			t.Error(refused.Message)
		}
	}
}

// TestWatchByField: an object that the selector does not select any more is deleted for the
// watcher.
func TestWatchByField(t *testing.T) {
	a := start(t)
	a.must(http.StatusCreated, "POST", hosts,
		`{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"one"},"spec":{"image":"a"}}`)
	time.AfterFunc(200*time.Millisecond, func() {
		a.do("PATCH", hosts+"/one", `{"spec":{"image":"b"}}`, "Content-Type", "application/merge-patch+json")
	})
	watched := string(a.must(http.StatusOK, "GET", hosts+"?watch=1&timeoutSeconds=2&fieldSelector=spec.image=a", nil).body)
	if !strings.Contains(watched, `"type":"ADDED"`) || !strings.Contains(watched, `"type":"DELETED"`) {
		t.Error(watched)
	}
}

// TestMACIsShownInOneForm: the object keeps the notation of its author, the table does not.
func TestMACIsShownInOneForm(t *testing.T) {
	a := start(t)
	const spec = `"bootMACAddress":"52-54-00-AB-CD-01","nics":[{"mac":"5254.00AB.CD02"}]`
	a.must(http.StatusCreated, "POST", hosts,
		`{"apiVersion":"v1","kind":"BareMetalHost","metadata":{"name":"one"},"spec":{`+spec+`}}`)
	if stored := string(a.must(http.StatusOK, "GET", hosts+"/one", nil).body); !strings.Contains(stored, spec) {
		t.Error(stored)
	}
	table := string(a.must(http.StatusOK, "GET", hosts, nil, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").body)
	if !strings.Contains(table, `"one","52:54:00:ab:cd:01"`) {
		t.Error(table)
	}
}

func TestWhoAmI(t *testing.T) {
	a := start(t)
	review := a.must(http.StatusCreated, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	if body := string(review.body); !strings.Contains(body, `"username":"local-admin"`) ||
		!strings.Contains(body, "system:authenticated") {
		t.Error(body)
	}
	root := string(a.must(http.StatusOK, "GET", "/", nil).body)
	for _, path := range []string{`"/api/v1"`, `"/apis/authentication.k8s.io/v1"`, `"/openapi/v3"`} {
		if !strings.Contains(root, path) {
			t.Errorf("/ lacks %s: %s", path, root)
		}
	}
	a.must(http.StatusNotFound, "GET", "/nothing", nil)
	services := string(a.must(http.StatusOK, "GET", "/api/v1/namespaces/kube-system/services", nil).body)
	if !strings.Contains(services, `"kind":"ServiceList"`) || !strings.Contains(services, `"items":[]`) {
		t.Error(services)
	}

	k := newKubectl(t, a.url)
	k.ok("auth whoami", "Username", "local-admin")
	k.ok("get --raw /", "/api/v1")
	k.ok("cluster-info", "Kubernetes control plane", "is running at", a.url)
	k.ok("get ns -o wide", "default")
}

func TestSelectorOfExpressionsAndPrefixes(t *testing.T) {
	a := start(t)
	config := func(name, selector string) string {
		return `{"apiVersion":"v1","kind":"IgnitionConfig","metadata":{"name":"` + name +
			`"},"spec":{"type":"ignition","format":"butane","config":"variant: fcos\nversion: 1.5.0\n","selector":` + selector + `}}`
	}
	a.must(http.StatusCreated, "POST", configs, config("a", `{"matchMACs":["52-54-00-*","52:54:00:00:00:01"],`+
		`"matchLabels":{"role":"worker"},"matchExpressions":[{"key":"site","operator":"In","values":["b","a"]},`+
		`{"key":"gpu","operator":"DoesNotExist"}]}`))
	for selector, want := range map[string]string{
		`{"matchMACs":["52:5*"]}`: "spec.selector.matchMACs[0]",
		`{"matchExpressions":[{"key":"a","operator":"Like","values":["b"]}]}`:             "matchExpressions[0].operator",
		`{"matchExpressions":[{"key":"a","operator":"In"}]}`:                              "matchExpressions[0].values",
		`{"matchExpressions":[{"key":"a","operator":"Exists","values":["b"]}]}`:           "matchExpressions[0].values",
		`{"matchExpressions":[{"key":"-a-","operator":"Exists"}]}`:                        "matchExpressions[0].key",
		`{"matchExpressions":[{"key":"a","operator":"In","values":["not a value","b"]}]}`: "matchExpressions[0].values[0]",
	} {
		refused := a.must(http.StatusUnprocessableEntity, "POST", configs, config("b", selector)).status(t)
		if !strings.Contains(refused.Message, want) {
			t.Errorf("%s: %s", selector, refused.Message)
		}
	}
	table := string(a.must(http.StatusOK, "GET", configs, nil, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").body)
	if want := "2 MACs or !gpu,role=worker,site in (a,b)"; !strings.Contains(table, want) {
		t.Errorf("the table lacks %q: %s", want, table)
	}
}
