package config

import (
	"context"
	"fmt"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/snapshot"
)

// BenchmarkAdmit is what a write of a small Butane waits for, with the conversions for
// a host that may need them, and without.
func BenchmarkAdmit(b *testing.B) {
	for _, misread := range []bool{true, false} {
		b.Run(fmt.Sprintf("converted=%t", misread), func(b *testing.B) {
			c := New(Options{Snapshot: snapshot.New(snapshot.Options{}), Misread: func(string) bool { return misread }})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				config := over("x", fmt.Sprint("machine-", i))
				if _, _ = c.Admit(context.Background(), config, nil, false); config.Status.Phase != v1.PhaseReady {
					b.Fatal(config.Status.Phase)
				}
			}
		})
	}
}
