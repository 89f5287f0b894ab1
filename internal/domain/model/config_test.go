package model

import "testing"

func TestDecodeConfig(t *testing.T) {
	value := `{"metadata":{"uid":"u","generation":3,"labels":{"role":"x"},"creationTimestamp":"2026-01-01T00:00:00Z"},` +
		`"spec":{"type":"ignition","config":"a\nb","selector":{"matchIPs":["10.0.0.0/8"]}},"status":{"errorMessage":"2:1: bad"},` +
		`"compiled":{"artifact":"e30=","hash":"sha256:1","ignitionVersion":"3.4.0","generation":2}}`
	c, err := Configs.Decode(Stored{Key: "g10/c", Revision: 5, Value: []byte(value)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Ref != (Ref{Namespace: "g10", Name: "c"}) || c.Source != "a\nb" || string(c.Artifact) != "{}" ||
		c.Hash != "sha256:1" ||
		c.ETag != `"sha256:1"` || c.IgnitionVersion != "3.4.0" || !c.Stale || c.ErrorMessage != "2:1: bad" ||
		c.Revision != 5 ||
		c.rule.Role != "x" || len(c.rule.Selector.Prefixes) != 1 {
		t.Errorf("%+v %+v", c, c.rule)
	}
}
