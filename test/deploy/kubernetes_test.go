package deploy

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"glowplug/internal/cli"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const kubernetes = "../../deploy/kubernetes"

// decode reads the objects of a text as the API server of Kubernetes does that refuses unknown and
// repeated fields.
func decode(t *testing.T, name, text string) (objects []runtime.Object) {
	t.Helper()
	codecs := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict)
	for document := range strings.SplitSeq(text, "\n---\n") {
		object, _, err := codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, document)
		}
		objects = append(objects, object)
	}
	return objects
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestKubernetesFiles: Kubernetes knows every field of every object, and glowplug every setting.
func TestKubernetesFiles(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(kubernetes, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		seen++
		switch entry.Name() {
		case "kustomization.yaml", "nats-values.yaml":
		case "glowplug.yaml":
			checkConfig(t, path)
		default:
			decode(t, path, read(t, path))
		}
		return nil
	})
	if err != nil || seen < 10 {
		t.Fatalf("%d files: %v", seen, err)
	}
}

// checkConfig checks a config file whose files are in the pod alone: each exists here, and is empty.
func checkConfig(t *testing.T, path string) {
	t.Helper()
	dir := t.TempDir()
	text := read(t, path)
	for _, file := range []string{"/nats/username", "/nats/password", "/nats-ca/ca.crt", "/pki"} {
		text = strings.ReplaceAll(text, " "+file+"\n", " "+filepath.Join(dir, file)+"\n")
	}
	for name, content := range map[string]string{"nats/username": "a", "nats/password": "b", "nats-ca/ca.crt": "", "pki/.keep": "",
		"glowplug.yaml": text} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	if code := cli.Main([]string{"config", "check", filepath.Join(dir, "glowplug.yaml")}, strings.NewReader(""), &stdout,
		&stderr); code != 0 {
		t.Errorf("%s: %d\n%s", path, code, stderr.String())
	}
}

// overlay is what kubectl makes of an overlay.
type overlay struct {
	set      *appsv1.StatefulSet
	services []*corev1.Service
	policies []*networkingv1.NetworkPolicy
	budgets  []*policyv1.PodDisruptionBudget
	configs  []string
}

// render renders an overlay.
func render(t *testing.T, name string) (o overlay) {
	t.Helper()
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("kubectl is not installed: the overlays are not rendered")
	}
	out, err := exec.Command(kubectl, "kustomize", filepath.Join(kubernetes, "overlays", name)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, object := range decode(t, name, string(out)) {
		accessor := object.(metav1.Object)
		_, namespace := object.(*corev1.Namespace)
		if !namespace && accessor.GetNamespace() != "glowplug" {
			t.Errorf("%T %s is in the namespace %q", object, accessor.GetName(), accessor.GetNamespace())
		}
		switch object := object.(type) {
		case *appsv1.StatefulSet:
			o.set = object
		case *corev1.Service:
			o.services = append(o.services, object)
		case *networkingv1.NetworkPolicy:
			o.policies = append(o.policies, object)
		case *policyv1.PodDisruptionBudget:
			o.budgets = append(o.budgets, object)
		case *corev1.ConfigMap:
			o.configs = append(o.configs, object.Name)
		}
	}
	if o.set == nil || len(o.services) != 2 {
		t.Fatalf("the overlay has no StatefulSet or not two Services:\n%s", out)
	}
	return o
}

// selects reports whether a selector holds for the servers.
func (o overlay) selects(t *testing.T, selector *metav1.LabelSelector) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return s.Matches(labels.Set(o.set.Spec.Template.Labels))
}

// TestOverlays: what belongs together in an overlay fits: selectors, ports, volumes and the config.
func TestOverlays(t *testing.T) {
	for _, name := range []string{"single", "cluster"} {
		o := render(t, name)
		pod := o.set.Spec.Template.Spec
		container := pod.Containers[0]
		if !o.selects(t, o.set.Spec.Selector) {
			t.Errorf("%s: the StatefulSet does not select its pods", name)
		}
		ports := map[string]bool{}
		for _, port := range container.Ports {
			ports[port.Name] = true
		}
		for _, service := range o.services {
			if !o.selects(t, &metav1.LabelSelector{MatchLabels: service.Spec.Selector}) {
				t.Errorf("%s: the Service %s selects no pod", name, service.Name)
			}
			for _, port := range service.Spec.Ports {
				if !ports[port.TargetPort.StrVal] {
					t.Errorf("%s: the Service %s has the port %s, which no container has", name, service.Name, port.TargetPort.StrVal)
				}
			}
		}
		volumes := map[string]bool{o.set.Spec.VolumeClaimTemplates[0].Name: true}
		for _, volume := range pod.Volumes {
			volumes[volume.Name] = true
			if volume.ConfigMap != nil && !slices.Contains(o.configs, volume.ConfigMap.Name) {
				t.Errorf("%s: there is no ConfigMap %s", name, volume.ConfigMap.Name)
			}
		}
		for _, mount := range container.VolumeMounts {
			if !volumes[mount.Name] {
				t.Errorf("%s: there is no volume %s", name, mount.Name)
			}
		}
		own := func(p *networkingv1.NetworkPolicy) bool { return o.selects(t, &p.Spec.PodSelector) }
		if !slices.ContainsFunc(o.policies, own) {
			t.Errorf("%s: no NetworkPolicy is of the servers", name)
		}
		if container.LivenessProbe.HTTPGet.Path != "/livez" || container.StartupProbe.HTTPGet.Path != "/livez" ||
			container.ReadinessProbe.HTTPGet.Path != "/readyz/boot" {
			t.Errorf("%s: probes of another purpose: %+v", name, container)
		}
		if !*pod.SecurityContext.RunAsNonRoot || !*container.SecurityContext.ReadOnlyRootFilesystem || !pod.HostNetwork {
			t.Errorf("%s: %+v", name, pod)
		}
	}
}

// TestOnlyTheClusterHasABudget: a budget of one server stops each drain, and one of three keeps two.
func TestOnlyTheClusterHasABudget(t *testing.T) {
	if o := render(t, "single"); len(o.budgets) > 0 || *o.set.Spec.Replicas != 1 {
		t.Errorf("single: %d budgets, %d replicas", len(o.budgets), *o.set.Spec.Replicas)
	}
	o := render(t, "cluster")
	if len(o.budgets) != 1 || !o.selects(t, o.budgets[0].Spec.Selector) ||
		o.budgets[0].Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("cluster: %+v", o.budgets)
	}
	if *o.set.Spec.Replicas != 3 || o.set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType ||
		o.set.Spec.Template.Spec.Affinity.PodAntiAffinity == nil {
		t.Errorf("cluster: %+v", o.set.Spec)
	}
}

// TestNATSValues: the NATS of the cluster is as glowplug needs it.
func TestNATSValues(t *testing.T) {
	var values struct {
		Config struct {
			Cluster struct {
				Enabled  bool
				Replicas int
			}
			Jetstream struct {
				Enabled bool
				Merge   map[string]string
			}
			Nats  struct{ TLS struct{ Enabled bool } }
			Merge map[string]any
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, kubernetes+"/overlays/cluster/nats-values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	c := values.Config
	if !c.Cluster.Enabled || c.Cluster.Replicas != 3 || !c.Jetstream.Enabled || !c.Nats.TLS.Enabled ||
		c.Jetstream.Merge["sync_interval"] != "always" || c.Merge["max_payload"] != "<< 16MB >>" || c.Merge["authorization"] == nil {
		t.Errorf("%+v", c)
	}
}
