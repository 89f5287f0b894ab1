package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
	"glowplug/internal/serve/console/live"
)

// maxImages is how many images of a namespace, or of all, are read.
const maxImages = 500

// imagesPage is what the template of the images shows.
type imagesPage struct {
	Namespace, State string // the filter, which stands in the URL
	Namespaces       []string
	Rows             []imageRow
	Total            int
	// IsCut is true where there are more images than are read, and IsMoving where a transfer is under way.
	IsCut, IsMoving bool
	Streams         []streamRow
	Refused         string // why the releases are not shown
}

// Hidden is the number of images that the filter hides.
func (d *imagesPage) Hidden() int { return d.Total - len(d.Rows) }

// States are the values of the filter.
func (d *imagesPage) States() []string {
	return []string{stateAttention, v1.PhaseError, v1.PhasePending, v1.PhaseUploading, v1.PhaseReady}
}

// imageRow is one image.
type imageRow struct {
	*v1.ISCSICdrom
	live.Booted
	Transfer *transfer
	Problems []string
}

// images shows all images, those first that need attention, and the releases of the streams.
func (s *Server) images(w http.ResponseWriter, r *http.Request, p *page) {
	p.Title, p.Section = "Images", "images"
	data := &imagesPage{Namespace: r.URL.Query().Get("ns"), State: r.URL.Query().Get("state")}
	images := data.read(p)
	if p.Wants("images") {
		hosts := hostsOf(p)
		for i := range images {
			data.add(p, &images[i], hosts)
		}
		slices.SortStableFunc(data.Rows, func(a, b imageRow) int { return cmp.Compare(a.rank(), b.rank()) })
	}
	if p.Wants("releases") {
		data.Streams, data.Refused = streamsOf(p, images)
	}
	p.show(w, "images", data)
}

// hostsOf counts the hosts of each image that the user may list.
func hostsOf(p *page) map[model.Ref]live.Booted {
	return p.server.opts.Live.Booted(func(namespace string) bool { return p.may(kinds.BareMetalHosts, namespace) })
}

// read reads the images that the user may list.
func (d *imagesPage) read(p *page) (images []v1.ISCSICdrom) {
	each(p, kinds.ISCSICdroms, url.Values{"limit": {strconv.Itoa(maxImages)}}, func(list *v1.ISCSICdromList) {
		images = append(images, list.Items...)
		d.IsCut = d.IsCut || list.Continue != ""
	})
	for i := range images {
		if name := images[i].Namespace; !slices.Contains(d.Namespaces, name) {
			d.Namespaces = append(d.Namespaces, name)
		}
	}
	d.Total = len(images)
	return images
}

// add adds an image, unless the filter hides it.
func (d *imagesPage) add(p *page, image *v1.ISCSICdrom, hosts map[model.Ref]live.Booted) {
	row := imageRow{
		ISCSICdrom: image, Problems: imageFaults(image),
		Booted: hosts[model.Ref{Namespace: image.Namespace, Name: image.Name}],
	}
	isHidden := d.State != "" && d.State != image.Status.Phase && (d.State != stateAttention || !row.NeedsAttention())
	if isHidden || d.Namespace != "" && d.Namespace != image.Namespace {
		return
	}
	row.Transfer = transferOf(p, image)
	d.IsMoving = d.IsMoving || row.Transfer != nil
	d.Rows = append(d.Rows, row)
}

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

// imageFaults are the messages of the conditions that are not met, but for Ready: that of status.errorMessage is shown
// beside them.
func imageFaults(image *v1.ISCSICdrom) (faults []string) {
	for _, c := range image.Status.Conditions {
		if c.Status == metav1.ConditionFalse && c.Type != v1.ConditionReady && c.Message != image.Status.ErrorMessage {
			faults = append(faults, c.Type+" is False ("+c.Reason+"): "+c.Message)
		}
	}
	return faults
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
