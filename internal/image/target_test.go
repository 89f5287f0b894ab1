package image

import (
	"strings"
	"testing"
)

func TestIQN(t *testing.T) {
	long := Ref{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("x", 253)}
	other := long
	other.Name = long.Name[:252] + "y"
	if a, b := IQN(long), IQN(other); len(a) != maxIQN || a == b {
		t.Errorf("%s\n%s", a, b)
	}
}
