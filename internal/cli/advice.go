package cli

import (
	"glowplug/internal/domain/report"
	"glowplug/internal/manifest"
	"glowplug/internal/offline"
)

// advise prints the warnings about objects that are valid each and do not fit together.
func (c *checker) advise() error {
	found := map[*manifest.Document]report.Report{}
	c.offline.Advise(func(a offline.Advice) {
		doc := c.docs[a.Kind+" "+a.Ref.String()]
		if doc == nil || c.broken[a.Lacks] {
			return
		}
		found[doc] = append(found[doc], newPlaces(doc).finding(report.Warning, a.Field, a.Advice.String()))
	})
	for _, doc := range c.related {
		if len(found[doc]) > 0 {
			if err := c.print(doc.File, newPlaces(doc).source, found[doc].Tidy()); err != nil {
				return err
			}
		}
	}
	return nil
}
