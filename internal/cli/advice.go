package cli

import (
	"slices"

	"glowplug/internal/app"
	"glowplug/internal/domain/report"
	"glowplug/internal/manifest"
)

// advise prints the warnings about objects that are valid each and do not fit together.
func (c *checker) advise(files []string) error {
	manifests := slices.DeleteFunc(slices.Clone(files), func(name string) bool {
		return !hasExtension(name, manifestFiles...)
	})
	found := map[*manifest.Document]report.Report{}
	err := app.AdviseManifests(func(a app.ManifestAdvice) {
		doc := c.docs[a.Kind+" "+a.Ref.String()]
		if doc == nil || c.broken[a.Lacks] {
			return
		}
		f := newPlaces(doc).finding(a.Field, a.Advice.String())
		f.Severity = report.Warning
		found[doc] = append(found[doc], f)
	}, manifests...)
	if err != nil {
		return fileError(err)
	}
	for _, doc := range c.related {
		if len(found[doc]) > 0 {
			if err := c.print(doc.File, newPlaces(doc).source, found[doc].Tidy()); err != nil {
				return err
			}
		}
	}
	return nil
}
