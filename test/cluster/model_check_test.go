package cluster

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestModel holds the checker against histories of one object whose verdict is plain.
func TestModel(t *testing.T) {
	at := func(from, to int64, c call, a answer) porcupine.Operation {
		return porcupine.Operation{Call: from, Return: to, Input: c, Output: a}
	}
	create1 := at(0, 1, call{operation: create, value: "a"}, answer{version: "1"})
	readA := answer{value: "a", version: "1"}
	tests := []struct {
		name    string
		want    bool
		history []porcupine.Operation
	}{
		{"a read of what was written", true, []porcupine.Operation{create1, at(2, 3, call{}, readA)}},
		{"a stale 404", false, []porcupine.Operation{create1, at(2, 3, call{}, answer{outcome: missing})}},
		{"a stale value", false, []porcupine.Operation{create1,
			at(2, 3, call{operation: put, value: "b"}, answer{version: "2"}), at(4, 5, call{}, readA)}},
		{"a value read during the write", true, []porcupine.Operation{create1,
			at(2, 5, call{operation: put, value: "b"}, answer{version: "2"}), at(3, 4, call{}, readA)}},
		{"two replaces of one version", false, []porcupine.Operation{create1,
			at(2, 3, call{operation: replace, version: "1", value: "b"}, answer{version: "2"}),
			at(4, 5, call{operation: replace, version: "1", value: "c"}, answer{version: "3"})}},
		{"a 409 that another write explains", true, []porcupine.Operation{create1,
			at(2, 3, call{operation: replace, version: "1", value: "b"}, answer{version: "2"}),
			at(4, 5, call{operation: replace, version: "1", value: "c"}, answer{outcome: conflict})}},
		{"a 409 of a write that was applied", false, []porcupine.Operation{create1,
			at(2, 3, call{operation: replace, version: "1", value: "b"}, answer{outcome: conflict}),
			at(4, 5, call{}, answer{value: "b", version: "2"})}},
		{"a 409 of nothing else", false, []porcupine.Operation{create1,
			at(2, 3, call{operation: replace, version: "1", value: "b"}, answer{outcome: conflict}), at(4, 5, call{}, readA)}},
		{"a 409 of an unconditional write", false, []porcupine.Operation{create1,
			at(2, 3, call{operation: put, value: "b"}, answer{outcome: conflict})}},
		{"an unknown write that was done", true, []porcupine.Operation{create1,
			at(2, never, call{operation: put, value: "b"}, answer{outcome: unknown}),
			at(4, 5, call{}, readA), at(6, 7, call{}, answer{value: "b", version: "2"})}},
		{"an unknown write that was not", true, []porcupine.Operation{create1,
			at(2, never, call{operation: put, value: "b"}, answer{outcome: unknown}), at(4, 5, call{}, readA)}},
		{"an unknown write done twice", false, []porcupine.Operation{create1,
			at(2, never, call{operation: put, value: "b"}, answer{outcome: unknown}),
			at(4, 5, call{}, answer{value: "b", version: "2"}),
			at(6, 7, call{operation: put, value: "c"}, answer{version: "3"}),
			at(8, 9, call{}, answer{value: "b", version: "4"})}},
		{"an acknowledged write that is lost", false, []porcupine.Operation{create1,
			at(2, 3, call{operation: replace, version: "1", value: "b"}, answer{version: "2"}), at(8, 9, call{}, readA)}},
		{"a deleted object that is back", false, []porcupine.Operation{create1,
			at(2, 3, call{operation: remove}, answer{}), at(8, 9, call{}, readA)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := porcupine.CheckOperations(model, tt.history); got != tt.want {
				t.Errorf("linearizable: %v, want %v", got, tt.want)
			}
		})
	}
}
