package snapshot

import (
	"testing"

	"glowplug/internal/domain/model"
	"glowplug/internal/store/kvstore"
)

func TestChangesAreTold(t *testing.T) {
	inv := New(Options{})
	changes := inv.Subscribe()
	hosts, configs, images := inv.Hosts(), inv.Configs(), inv.Images()
	hosts.Load(nil)
	configs.Load(nil)
	images.Load(nil)
	hosts.Put(kvstore.Item{Key: "a/h", Revision: 1, Value: []byte(`{}`)})
	hosts.Put(kvstore.Item{Key: "a/h", Revision: 2, Value: []byte(`{}`)})
	hosts.Delete("a/h", 3)
	configs.Put(kvstore.Item{Key: "a/c", Revision: 1,
		Value: []byte(`{"metadata":{"generation":7},"spec":{"type":"kickstart","format":"kickstart"},"compiled":{"artifact":"eA==","template":true}}`)})
	images.Put(kvstore.Item{Key: "a/i", Revision: 1, Value: []byte(`{"spec":{"isoFile":"x"}}`)})
	images.Put(kvstore.Item{Key: "a/i", Revision: 2, Value: []byte(`{"spec":{"ignitionConfig":"c"}}`)})
	told := changes.Take()
	if len(told) != 9 {
		t.Fatalf("%d changes: %+v", len(told), told)
	}
	if !told[0].All || !told[1].All || !told[2].All || told[7].All || !told[8].All {
		t.Errorf("%+v", told)
	}
	if c := told[8]; c.OldImage == nil || c.OldImage.Config != (model.Ref{}) || c.Image.Config.Name != "c" {
		t.Errorf("%+v", c)
	}
	if c := told[3]; c.Host == nil || c.OldHost != nil {
		t.Errorf("%+v", c)
	}
	if c := told[4]; c.Host.Revision != 2 || c.OldHost.Revision != 1 {
		t.Errorf("%+v", c)
	}
	if c := told[5]; c.Host != nil || c.OldHost == nil {
		t.Errorf("%+v", c)
	}
	if c := told[6].Config; c == nil || !c.Template || c.Generation != 7 || c.Format != "kickstart" {
		t.Errorf("%+v", c)
	}
	view := inv.View()
	if n := len(view.Templates()); n != 1 || view.Config(model.Ref{Namespace: "a", Name: "c"}) == nil {
		t.Errorf("%d templates", n)
	}
}
