package wording

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "glowplug/api/v1"
)

// exampleBoot is a boot with every fact that is compared.
func exampleBoot() *v1.Boot {
	b := &v1.Boot{
		Outcome: v1.OutcomeProvisioned, Client: "192.0.2.1", UserAgent: "Ignition/2.19.0", Script: "sha256:" + strings.Repeat("a", 64),
		Facts: &v1.BootFacts{FoundBy: "mac"}, Match: &v1.BootMatch{Tier: "mac", Reason: "it has an image"},
		Config: &v1.BootConfig{Name: "a/worker", Generation: 3, Version: "3.4.0", Hash: "sha256:" + strings.Repeat("b", 64)},
		Image:  &v1.BootImage{Name: "a/coreos", Release: "41", Digest: "01"}, KernelArguments: "quiet console=ttyS0",
	}
	b.Namespace, b.Name = "a", "node-1.7"
	return b
}

func TestDifferenceOfBoots(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1.Boot)
		want   []Difference
	}{
		"nothing":        {func(*v1.Boot) {}, nil},
		"its name alone": {func(b *v1.Boot) { b.Namespace, b.Name, b.Number = "b", "node-2.1", 1 }, nil},
		"the outcome": {func(b *v1.Boot) { b.Outcome, b.Reason = v1.OutcomeFailed, "there is no image" },
			[]Difference{{"outcome", "Provisioned", "Failed"}, {"reason", "", "there is no image"}}},
		"the image": {func(b *v1.Boot) { b.Image = &v1.BootImage{Name: "a/coreos", Release: "42", Digest: "02"} },
			[]Difference{{"release", "41", "42"}, {"image digest", "01", "02"}}},
		"no image": {func(b *v1.Boot) { b.Image = nil },
			[]Difference{{"image", "a/coreos", ""}, {"release", "41", ""}, {"image digest", "01", ""}}},
		"the config": {func(b *v1.Boot) { b.Config.Generation, b.Config.Hash = 4, "sha256:"+strings.Repeat("c", 64) },
			[]Difference{{"config generation", "3", "4"}, {"config hash", "bbbbbbbbbbbb", "cccccccccccc"}}},
		"no config": {func(b *v1.Boot) { b.Config, b.Match, b.Facts = nil, nil, nil },
			[]Difference{{"found by", "mac", ""}, {"why", "it has an image", ""}, {"config", "a/worker", ""}, {"config chosen by", "mac", ""},
				{"config generation", "3", ""}, {"Ignition version", "3.4.0", ""}, {"config hash", "bbbbbbbbbbbb", ""}}},
		"the machine": {func(b *v1.Boot) { b.Client, b.UserAgent, b.Script = "192.0.2.2", "curl", "" },
			[]Difference{{"client", "192.0.2.1", "192.0.2.2"}, {"script", "aaaaaaaaaaaa", ""}, {"user agent", "Ignition/2.19.0", "curl"}}},
		"arguments": {func(b *v1.Boot) { b.KernelArguments = `dyndbg="file a.c +p" console=ttyS0` },
			[]Difference{{"kernel argument", "quiet", ""}, {"kernel argument", "", `dyndbg="file a.c +p"`}}},
		"the order of arguments": {func(b *v1.Boot) { b.KernelArguments = "console=ttyS0 quiet" },
			[]Difference{{"kernel arguments", "quiet console=ttyS0", "console=ttyS0 quiet"}}},
	} {
		after := exampleBoot()
		c.change(after)
		if diff := cmp.Diff(c.want, DifferenceOf(exampleBoot(), after).Differences); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestDifferenceOfBootsAsText(t *testing.T) {
	after := exampleBoot()
	after.Name = "node-1.8"
	d := DifferenceOf(exampleBoot(), after)
	if got := d.Text(); got != "nothing differs between the boots a/node-1.7 and a/node-1.8\n" {
		t.Error(got)
	}
	after.Outcome, after.Reason, after.KernelArguments = v1.OutcomeFailed, "a\x1b[31m", "console=ttyS0"
	d = DifferenceOf(exampleBoot(), after)
	d.Content, d.Note = "passwd\n- a\x1b\n", "no"
	want := `                 a/node-1.7   a/node-1.8
outcome          Provisioned  Failed
reason           -            a�[31m
kernel argument  quiet        -

passwd
- a�

the configs are not compared: no
`
	if diff := cmp.Diff(want, d.Text()); diff != "" {
		t.Error(diff)
	}
}
