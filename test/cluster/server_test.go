package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"glowplug/internal/testkit"
)

const (
	kubeNamespace = "cluster"
	bucket        = "KV_CONFIGMAPS" // only the clients write there
	objects       = "/api/v1/namespaces/" + kubeNamespace + "/configmaps"

	// callTimeout is beyond what the server takes to say that it does not know.
	callTimeout = 8 * time.Second
)

// server is one glowplug.
type server struct {
	process
	dir    string
	token  string
	client *http.Client
}

var tokenLine = regexp.MustCompile(`(?m)^\s*token: "?([^"\s]+)`)

// startServer runs a server of its own data directory on all NATS servers.
func (c *cluster) startServer(at node) *server {
	c.t.Helper()
	var urls []string
	for _, n := range c.nats {
		urls = append(urls, fmt.Sprintf("nats://%s:4222", n.at.data))
	}
	dir := filepath.Join(c.dir, at.name)
	argv := []string{glowplug, "serve", "--data-dir", dir, "--listen", ":8082", "--listen-tls", "", "--nats-url",
		strings.Join(urls, ","),
		"--allow-insecure-api", "--identity-claims", "trust", "--neighbors", "off"}
	// An earlier release of the program has fewer flags.
	help, _ := exec.Command(glowplug, "serve", "--help").CombinedOutput()
	if strings.Contains(string(help), "--nats-replicas") {
		argv = append(argv, "--nats-replicas", fmt.Sprint(len(c.nats)))
	}
	if strings.Contains(string(help), "--pki-dir") {
		argv = append(argv, "--pki-dir", filepath.Join(c.dir, "pki"))
	}
	s := &server{
		process: process{t: c.t, at: at, log: filepath.Join(c.dir, at.name+".log"), argv: argv},
		dir:     dir,
		client:  &http.Client{Transport: &http.Transport{DialContext: c.net.dial, MaxIdleConnsPerHost: 32}},
	}
	s.start()
	c.t.Cleanup(s.client.CloseIdleConnections)
	testkit.Within(c.t, time.Minute, at.name+" is ready", s.ready)
	kubeconfig, err := os.ReadFile(filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		c.t.Fatal(err)
	}
	m := tokenLine.FindSubmatch(kubeconfig)
	if m == nil {
		c.t.Fatal("admin.kubeconfig holds no token")
	}
	s.token = string(m[1])
	return s
}

func (s *server) ready() bool {
	status, _, err := s.ask(s.t.Context(), http.MethodGet, "/readyz", "")
	return err == nil && status == http.StatusOK
}

func (s *server) request(ctx context.Context, method, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.at.direct+":8082"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	return s.client.Do(req)
}

// ask sends one request and reads the whole answer, within callTimeout.
func (s *server) ask(ctx context.Context, method, path, body string) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := s.request(ctx, method, path, body)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// object is as much of a ConfigMap as these tests use.
type object struct {
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion,omitempty"`
	} `json:"metadata"`
	Data map[string]string `json:"data,omitempty"`
}

// list returns the version of each object, and that of the list.
func (s *server) list(ctx context.Context) (versions map[string]string, last uint64, err error) {
	status, text, err := s.ask(ctx, http.MethodGet, objects, "")
	var list struct {
		Metadata struct {
			ResourceVersion uint64 `json:"resourceVersion,string"`
		} `json:"metadata"`
		Items []object `json:"items"`
	}
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("the list of %s: %w", s.at.name, err)
	case status != http.StatusOK:
		return nil, 0, fmt.Errorf("the list of %s: %d %.200s", s.at.name, status, text)
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, 0, fmt.Errorf("the list of %s: %w", s.at.name, err)
	}
	versions = map[string]string{}
	for _, o := range list.Items {
		versions[o.Metadata.Name] = o.Metadata.ResourceVersion
	}
	return versions, list.Metadata.ResourceVersion, nil
}

// call does one operation and interprets the answer. The text is empty unless the
// answer says nothing about the object: then it says what it was.
func (s *server) call(ctx context.Context, c call) (a answer, text string) {
	method, path, body := http.MethodGet, objects+"/"+c.object, ""
	switch c.operation {
	case create:
		method, path = http.MethodPost, objects
	case replace, put:
		method = http.MethodPut
	case remove:
		method = http.MethodDelete
	}
	if c.value != "" {
		var o object
		o.Metadata.Name, o.Metadata.ResourceVersion, o.Data = c.object, c.version, map[string]string{"value": c.value}
		b, _ := json.Marshal(o)
		body = string(b)
	}
	status, reply, err := s.ask(ctx, method, path, body)
	if err != nil {
		return answer{outcome: unknown}, ""
	}
	switch status {
	case http.StatusOK, http.StatusCreated:
		if c.operation == remove {
			return answer{}, ""
		}
		var o object
		if err := json.Unmarshal([]byte(reply), &o); err != nil || o.Metadata.Name != c.object {
			return answer{}, fmt.Sprintf("%d %.200s", status, reply)
		}
		return answer{value: o.Data["value"], version: o.Metadata.ResourceVersion}, ""
	case http.StatusConflict:
		return answer{outcome: conflict}, ""
	case http.StatusNotFound:
		return answer{outcome: missing}, ""
	case http.StatusGatewayTimeout:
		return answer{outcome: unknown}, ""
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return answer{}, fmt.Sprint(status) // not begun
	}
	return answer{}, fmt.Sprintf("%d %.200s", status, reply)
}
