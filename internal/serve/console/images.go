package console

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/serve/console/live"
)

// imagesPage is what the template of the images shows.
type imagesPage struct {
	Namespace, State string // the filter, which stands in the URL
	Namespaces       []string
	Counts           []stateCount
	Rows             []imageRow
	Total, Hidden    int
	// IsCut is true where there are more images than are read, and IsMoving where a transfer is under way.
	IsCut, IsMoving bool
	Streams         map[string][]releaseRow
	Refused         string // why the releases are not shown
}

// imageRow is one image.
type imageRow struct {
	*v1.ISCSICdrom
	Hosts      []live.Cell // those that boot it and that the user may list
	Unreadable int         // how many of them cannot read their config
	Transfer   *transfer
	Problems   []string
}

// images shows all images, those first that need attention, and the releases of the streams.
func (s *Server) images(w http.ResponseWriter, r *http.Request, p *page) {
	p.Title, p.Section = "Images", "images"
	data := &imagesPage{Namespace: r.FormValue("ns"), State: r.FormValue("state")}
	var images []v1.ISCSICdrom
	each(p, kinds.ISCSICdroms, url.Values{"limit": {"500"}}, func(list *v1.ISCSICdromList) {
		images = append(images, list.Items...)
		data.IsCut = data.IsCut || list.Continue != ""
	})
	if p.Wants("images") {
		data.read(p, images)
	}
	if p.Wants("releases") {
		data.Streams, data.Refused = streamsOf(p, images)
	}
	p.show(w, "images", data)
}

// read adds the images that the filter shows, and counts those of the namespace by their state.
func (d *imagesPage) read(p *page, images []v1.ISCSICdrom) {
	hosts, counts, namespaces := hostsOf(p), map[string]int{}, map[string]bool{}
	d.Total = len(images)
	for i := range images {
		row := rowOf(&images[i], hosts)
		namespaces[row.Namespace] = true
		if d.Namespace != "" && d.Namespace != row.Namespace {
			continue
		}
		isShown := d.State == "" || d.State == row.Phase()
		counts[row.Phase()]++
		if row.rank() == 0 {
			isShown = isShown || d.State == stateAttention
			counts[stateAttention]++
		}
		if isShown {
			row.Transfer = transferOf(p, row.ISCSICdrom)
			d.IsMoving = d.IsMoving || row.Transfer != nil
			d.Rows = append(d.Rows, row)
		}
	}
	d.Namespaces = slices.Sorted(maps.Keys(namespaces))
	for _, state := range []string{stateAttention, v1.PhaseError, v1.PhasePending, v1.PhaseUploading, v1.PhaseReady} {
		d.Counts = append(d.Counts, stateCount{state, counts[state]})
	}
	d.Hidden = d.Total - len(d.Rows)
	slices.SortStableFunc(d.Rows, func(a, b imageRow) int { return cmp.Compare(a.rank(), b.rank()) })
}

// hostsOf returns the hosts of each image.
func hostsOf(p *page) map[model.Ref][]live.Cell {
	hosts := map[model.Ref][]live.Cell{}
	for _, c := range p.cells() {
		hosts[c.Image] = append(hosts[c.Image], c)
	}
	return hosts
}

// rowOf adds to an image its hosts, and the messages of its conditions that are not met, but for Ready: that of
// status.errorMessage is shown beside them.
func rowOf(image *v1.ISCSICdrom, hosts map[model.Ref][]live.Cell) imageRow {
	row := imageRow{ISCSICdrom: image, Hosts: hosts[model.Ref{Namespace: image.Namespace, Name: image.Name}]}
	for i := range row.Hosts {
		if row.Hosts[i].Unreadable {
			row.Unreadable++
		}
	}
	for _, c := range image.Status.Conditions {
		if c.Status == metav1.ConditionFalse && c.Type != v1.ConditionReady && c.Message != image.Status.ErrorMessage {
			row.Problems = append(row.Problems, c.Type+" is False ("+c.Reason+"): "+c.Message)
		}
	}
	return row
}

// Phase is that of the image, also before the server has set one.
func (r *imageRow) Phase() string { return cmp.Or(r.Status.Phase, v1.PhasePending) }

// NeedsAttention reports whether something is wrong with the image, or with what its hosts get.
func (r *imageRow) NeedsAttention() bool { return r.rank() == 0 }

// rank is the place in the list: what needs attention, what is not ready yet, the others.
func (r *imageRow) rank() int {
	switch {
	case r.Status.Phase == v1.PhaseError || len(r.Problems) > 0 || r.Unreadable > 0:
		return 0
	case r.Status.Phase != v1.PhaseReady:
		return 1
	}
	return 2
}

// Source says where the image comes from, as kubectl get does.
func (r *imageRow) Source() string {
	spec := &r.Spec
	switch {
	case spec.Stream != nil:
		s := spec.Stream.WithDefaults()
		return "stream " + s.Name + ", " + s.Format + ", " + s.Update
	case spec.External != nil:
		return spec.External.Portal
	}
	return cmp.Or(spec.URL, spec.ISOFile, "upload")
}

// TakesUploads reports whether the file of the image is uploaded.
func (r *imageRow) TakesUploads() bool {
	return r.Spec.Stream == nil && r.Spec.External == nil && r.Spec.URL == "" && r.Spec.ISOFile == ""
}

// releaseRow is a release, with the images that serve it.
type releaseRow struct {
	Release, Modified, Architectures string
	Current                          string // "true" or "false"
	Images                           []releaseImage
}

// releaseImage is an image that serves a release. Wanted is the one that it has to serve, where that is another one.
type releaseImage struct{ Ref, Wanted string }

// streamsOf reads the releases by the names of their streams: the current one first, then the newest. refused says why
// they cannot be read.
func streamsOf(p *page, images []v1.ISCSICdrom) (streams map[string][]releaseRow, refused string) {
	rows, _, err := p.rows(kinds.StreamReleases, "", "", 500) // each object has hundreds of kilobytes
	if err != nil {
		return nil, sentence(err)
	}
	streams = map[string][]releaseRow{}
	for _, row := range rows {
		stream := row["stream"]
		streams[stream] = append(streams[stream], releaseRow{
			Release: row["release"], Modified: row["modified"], Architectures: row["architectures"],
			Current: row["current"], Images: imagesOf(images, stream, row["release"]),
		})
	}
	for _, releases := range streams {
		slices.SortFunc(releases, func(a, b releaseRow) int {
			return cmp.Or(cmp.Compare(b.Current, a.Current), cmp.Compare(b.Release, a.Release))
		})
	}
	return streams, ""
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
