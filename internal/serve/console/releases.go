package console

import (
	"cmp"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
)

// streamRow is a stream with its releases, the current one first, then the newest.
type streamRow struct {
	Name     string
	Releases []releaseRow
}

// releaseRow is a release, with the images that serve it.
type releaseRow struct {
	Release, Modified, Architectures string
	IsCurrent                        bool
	Images                           []releaseImage
}

// releaseImage is an image that serves a release. Wanted is the one that it has to serve, where that is another one.
type releaseImage struct{ Ref, Wanted string }

// streamsOf reads the releases by their streams. They are read as kubectl get shows them: each has a document of
// hundreds of kilobytes. refused says why they cannot be read.
func streamsOf(p *page, images []v1.ISCSICdrom) (streams []streamRow, refused string) {
	table := &metav1.Table{}
	err := p.ask(p.ctx, client.Request{
		Resource: kinds.StreamReleases, Query: url.Values{"limit": {"500"}, "includeObject": {"None"}},
		Header: map[string]string{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
	}, table)
	if err != nil {
		return nil, sentence(err)
	}
	rows := map[string][]releaseRow{}
	for i := range table.Rows {
		cell := func(column string) any { return cellOf(table, i, column) }
		stream, release := textOf(cell("Stream")), textOf(cell("Release"))
		isCurrent, _ := cell("Current").(bool)
		rows[stream] = append(rows[stream], releaseRow{
			Release: release, IsCurrent: isCurrent, Modified: textOf(cell("Modified")),
			Architectures: textOf(cell("Architectures")), Images: imagesOf(images, stream, release),
		})
	}
	for name, releases := range rows {
		slices.SortFunc(releases, func(a, b releaseRow) int {
			return cmp.Or(trueFirst(a.IsCurrent, b.IsCurrent), cmp.Compare(b.Release, a.Release))
		})
		streams = append(streams, streamRow{name, releases})
	}
	slices.SortFunc(streams, func(a, b streamRow) int { return cmp.Compare(a.Name, b.Name) })
	return streams, ""
}

// cellOf is the cell of a row in the column of a name; nil: there is none.
func cellOf(table *metav1.Table, row int, column string) any {
	i := slices.IndexFunc(table.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == column })
	if i < 0 || i >= len(table.Rows[row].Cells) {
		return nil
	}
	return table.Rows[row].Cells[i]
}

func textOf(cell any) string {
	text, _ := cell.(string)
	return text
}

// imagesOf returns the images of a stream that serve a release.
func imagesOf(images []v1.ISCSICdrom, stream, release string) (of []releaseImage) {
	for i := range images {
		image := &images[i]
		if image.Spec.Stream == nil || image.Spec.Stream.Name != stream || image.Status.ServedRelease != release {
			continue
		}
		found := releaseImage{Ref: image.Namespace + "/" + image.Name}
		if image.Status.Release != release {
			found.Wanted = image.Status.Release
		}
		of = append(of, found)
	}
	return of
}
