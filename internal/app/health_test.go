package app

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestDeployProbesBoots: in Kubernetes a pod stays in its Services for as long as
// machines can be answered.
func TestDeployProbesBoots(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kubernetes", "base", "statefulset.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	type probe struct {
		HTTPGet struct{ Path string } `yaml:"httpGet"`
	}
	type manifest struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct {
						Ready probe `yaml:"readinessProbe"`
						Live  probe `yaml:"livenessProbe"`
					}
				}
			}
		}
	}
	containers := 0
	for documents := yaml.NewDecoder(bytes.NewReader(raw)); ; {
		var m manifest
		if err := documents.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		for _, c := range m.Spec.Template.Spec.Containers {
			containers++
			if c.Ready.HTTPGet.Path != "/readyz/boot" || c.Live.HTTPGet.Path != "/livez" {
				t.Errorf("the probes ask %q and %q", c.Ready.HTTPGet.Path, c.Live.HTTPGet.Path)
			}
		}
	}
	if containers != 1 {
		t.Errorf("%d containers", containers)
	}
}
