package compile

import "glowplug/internal/domain/report"

// Verdict is the answer of POST /api/v1/compile: what a config compiles to that is not stored.
type Verdict struct {
	// Phase is that of the status of the config: Ready, Error or, for a template and a layer that is still being
	// compiled, Pending.
	Phase string `json:"phase"`
	// Findings are those of the source, in its order, and then those of the merge over the layers.
	Findings report.Report `json:"findings"`
	// Hash, Size and IgnitionVersion are of what machines would receive; empty for phases other than Ready.
	Hash            string `json:"hash,omitempty"`
	Size            int64  `json:"size,omitempty"`
	IgnitionVersion string `json:"ignitionVersion,omitempty"`
	// Milliseconds is how long it took.
	Milliseconds int64 `json:"milliseconds"`
}
