package v1

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// keys returns n labels.
func keys(n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprintf("k%d", i)] = "v"
	}
	return out
}

// Every list and map may have so many entries, and with one more it is refused by
// its length alone: nothing is said of the entries, all of which are bad here.
func TestBounds(t *testing.T) {
	config := func(change func(*IgnitionConfigSpec)) func() field.ErrorList {
		return func() field.ErrorList {
			c := &IgnitionConfig{ObjectMeta: meta, Spec: IgnitionConfigSpec{Type: TypeIgnition, Format: FormatButane,
				Config: "x"}}
			change(&c.Spec)
			return ValidateIgnitionConfig(c)
		}
	}
	host := func(change func(*BareMetalHost)) func() field.ErrorList {
		return func() field.ErrorList {
			h := &BareMetalHost{ObjectMeta: *meta.DeepCopy()}
			change(h)
			return ValidateBareMetalHost(h)
		}
	}
	bad := func(n int) []string { return slices.Repeat([]string{"a\nb"}, n) }
	tests := map[string]struct {
		max int
		of  func(n int) func() field.ErrorList
	}{
		"spec.selector.matchLabels": {MaxKeys, func(n int) func() field.ErrorList {
			return config(func(s *IgnitionConfigSpec) { s.Selector.MatchLabels = keys(n) })
		}},
		"spec.selector.matchHostnames": {MaxItems, func(n int) func() field.ErrorList {
			return config(func(s *IgnitionConfigSpec) { s.Selector.MatchHostnames = bad(n) })
		}},
		"spec.selector.matchIPs": {MaxItems, func(n int) func() field.ErrorList {
			return config(func(s *IgnitionConfigSpec) { s.Selector.MatchIPs = bad(n) })
		}},
		"spec.selector.matchMACs": {MaxItems, func(n int) func() field.ErrorList {
			return config(func(s *IgnitionConfigSpec) { s.Selector.MatchMACs = bad(n) })
		}},
		"spec.layers": {MaxLayers, func(n int) func() field.ErrorList {
			return config(func(s *IgnitionConfigSpec) { s.Layers = make([]LayerReference, n) })
		}},
		"spec.labels": {MaxKeys, func(n int) func() field.ErrorList {
			return host(func(h *BareMetalHost) { h.Spec.Labels = keys(n) })
		}},
		"spec.nics": {MaxItems, func(n int) func() field.ErrorList {
			return host(func(h *BareMetalHost) { h.Spec.NICs = make([]NIC, n) })
		}},
		"spec.bootSources": {MaxItems, func(n int) func() field.ErrorList {
			return host(func(h *BareMetalHost) { h.Spec.BootSources = bad(n) })
		}},
		"spec.kernelArgs": {MaxItems, func(n int) func() field.ErrorList {
			return host(func(h *BareMetalHost) { h.Spec.KernelArgs = bad(n) })
		}},
		"spec.allowedInitiators": {MaxItems, func(n int) func() field.ErrorList {
			return func() field.ErrorList {
				return ValidateISCSICdrom(&ISCSICdrom{ObjectMeta: meta, Spec: ISCSICdromSpec{AllowedInitiators: bad(n)}})
			}
		}},
		"spec.mirrors": {MaxItems, func(n int) func() field.ErrorList {
			return func() field.ErrorList {
				return ValidateStreamRelease(&StreamRelease{ObjectMeta: metav1.ObjectMeta{Name: "a-1"}, Spec: StreamReleaseSpec{
					Stream: "a", Release: "1", Document: "{}", Mirrors: bad(n)}})
			}
		}},
		"data": {MaxKeys, func(n int) func() field.ErrorList {
			return func() field.ErrorList { return ValidateConfigMap(&ConfigMap{ObjectMeta: meta, Data: keys(n)}) }
		}},
		"binaryData": {MaxKeys, func(n int) func() field.ErrorList {
			return func() field.ErrorList {
				cm := &ConfigMap{ObjectMeta: meta, BinaryData: map[string][]byte{}}
				for key := range keys(n) {
					cm.BinaryData[key] = nil
				}
				return ValidateConfigMap(cm)
			}
		}},
		"metadata.labels": {MaxKeys, func(n int) func() field.ErrorList {
			return host(func(h *BareMetalHost) { h.Labels = keys(n) })
		}},
		"metadata.annotations": {MaxKeys, func(n int) func() field.ErrorList {
			return func() field.ErrorList {
				return ValidateNamespace(&Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: keys(n)}})
			}
		}},
		"metadata.finalizers": {MaxKeys, func(n int) func() field.ErrorList {
			return host(func(h *BareMetalHost) { h.Finalizers = bad(n) })
		}},
		"metadata.ownerReferences": {MaxKeys, func(n int) func() field.ErrorList {
			return host(func(h *BareMetalHost) {
				for i := range n {
					h.OwnerReferences = append(h.OwnerReferences, metav1.OwnerReference{UID: types.UID(fmt.Sprint(i))})
				}
			})
		}},
	}
	for path, test := range tests {
		t.Run(path, func(t *testing.T) {
			for _, err := range test.of(test.max)() {
				if err.Type == field.ErrorTypeTooMany {
					t.Errorf("%d entries: %v", test.max, err)
				}
			}
			errs := test.of(test.max + 1)()
			want := fmt.Sprintf("%s: Too many: %d: must have at most %d items", path, test.max+1, test.max)
			if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want) {
				t.Errorf("%v, want %s", errs, want)
			}
		})
	}
}

// TestConfigMapNamesTheFieldThatIsTooLarge: the values of a ConfigMap have a size together.
func TestConfigMapNamesTheFieldThatIsTooLarge(t *testing.T) {
	cm := &ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"},
		Data: map[string]string{"a": strings.Repeat("x", MaxConfigMapBytes), "b": "x"}}
	if errs := ValidateConfigMap(cm); len(errs) != 1 || errs[0].Field != "data" {
		t.Errorf("%v", errs)
	}
}
