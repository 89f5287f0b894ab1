package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/explain"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/model"
)

const (
	// maxImageHosts is how many hosts of an image are listed.
	maxImageHosts = 50
	// The first piece of an upload is small, so that a refusal comes soon; the next ones are twice as large each, up
	// to the largest. What has arrived of a piece that is cut off is kept.
	firstPiece, largestPiece = 1 << 20, 64 << 20
)

// imagePage is what the template of an image shows.
type imagePage struct {
	imageRow
	Arguments []explain.Argument
	Hosts     []imageHost
	// AllHosts counts the hosts, and HostsRefused says why they are not listed.
	AllHosts     int
	HostsRefused string
	Events       []v1.Event
	// TakesUploads is true where the file is uploaded.
	TakesUploads             bool
	FirstPiece, LargestPiece int
}

// imageHost is a host that boots the image. Fault says that it cannot read its config.
type imageHost struct {
	*v1.BareMetalHost
	Fault string
}

// image shows one image.
func (s *Server) image(w http.ResponseWriter, r *http.Request, p *page) {
	cdrom := &v1.ISCSICdrom{}
	namespace, name := r.PathValue("ns"), r.PathValue("name")
	p.Title, p.Section = namespace+"/"+name, "images"
	if err := p.get(kinds.ISCSICdroms, namespace, name, nil, cdrom); err != nil {
		p.fail(w, "ISCSICdrom "+namespace+"/"+name, err)
		return
	}
	data := &imagePage{FirstPiece: firstPiece, LargestPiece: largestPiece}
	data.ISCSICdrom, data.Problems, data.Transfer = cdrom, imageFaults(cdrom), transferOf(p, cdrom)
	data.Arguments = explain.Arguments(model.ImageFrom(cdrom), nil)
	data.Booted = hostsOf(p)[model.Ref{Namespace: namespace, Name: name}]
	data.TakesUploads = takesUploads(&cdrom.Spec)
	if p.Wants("hosts") {
		data.readHosts(p)
	}
	events := &v1.EventList{}
	if p.get(kinds.Events, namespace, "", eventsOf("ISCSICdrom", name), events) == nil {
		data.Events = newestEvents(events.Items)
	}
	p.show(w, "image", data)
}

// readHosts adds the hosts that boot the image, those first that cannot read their config: hosts of its namespace may
// name it alone.
func (d *imagePage) readHosts(p *page) {
	full := d.Namespace + "/" + d.Name
	var refused error
	read := func(namespace, value string) {
		list, query := &v1.BareMetalHostList{}, url.Values{"fieldSelector": {"spec.image=" + value}, "limit": {"500"}}
		if err := p.get(kinds.BareMetalHosts, namespace, "", query, list); err != nil {
			refused = err
			return
		}
		for i := range list.Items {
			host := imageHost{BareMetalHost: &list.Items[i]}
			c := apimeta.FindStatusCondition(host.Status.Conditions, v1.ConditionConfigReadable)
			if c != nil && c.Status == metav1.ConditionFalse {
				host.Fault = c.Message
			}
			d.Hosts = append(d.Hosts, host)
		}
	}
	for _, namespace := range p.namespaces(kinds.BareMetalHosts) {
		read(namespace, full)
	}
	read(d.Namespace, d.Name)
	if len(d.Hosts) == 0 && refused != nil {
		d.HostsRefused = sentence(refused)
	}
	d.AllHosts = max(len(d.Hosts), d.Booted.Hosts)
	slices.SortStableFunc(d.Hosts, func(a, b imageHost) int { return trueFirst(a.Fault != "", b.Fault != "") })
	d.Hosts = d.Hosts[:min(len(d.Hosts), maxImageHosts)]
}

// trueFirst sorts what is true first.
func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// takesUploads reports whether the file of an image is uploaded.
func takesUploads(spec *v1.ISCSICdromSpec) bool {
	return spec.ISOFile == "" && spec.URL == "" && spec.Stream == nil && spec.External == nil
}

// Facts are what is known of the image and how it is served. Those without a value are left out.
func (d *imagePage) Facts() [][2]string {
	spec, status := &d.Spec, &d.Status
	facts := [][2]string{
		{"source", d.Source()}, {"sha256", status.SHA256}, {"size", sizeText(status.ISOSize)}, {"volume", status.VolumeID},
		{"distribution", status.Distro}, {"architectures", strings.Join(status.Architectures, ", ")},
		{"release", status.ServedRelease}, {"release wanted", status.Release}, {"reads Ignition up to", status.MaxIgnition},
		{"target", status.TargetIQN}, {"portal", status.PortalIP}, {"file", status.ISOPath}, {"transport", spec.Transport},
		{"access", spec.Access}, {"allowed initiators", strings.Join(spec.AllowedInitiators, ", ")},
		{"config", spec.IgnitionConfig}, {"version", spec.Version}, {"description", spec.Description},
	}
	if spec.Default {
		facts = append(facts, [2]string{"default", "unknown machines may boot it"})
	}
	if chap := spec.CHAP; chap != nil {
		facts = append(facts, [2]string{"CHAP", cmp.Or(chap.SecretName, chap.Username)})
	}
	for _, file := range status.Files {
		facts = append(facts, [2]string{file.Role, bytesText(file.Size) + ", sha256 " + file.SHA256})
	}
	return slices.DeleteFunc(facts, func(fact [2]string) bool { return fact[1] == "" })
}

func sizeText(n int64) string {
	if n == 0 {
		return ""
	}
	return bytesText(n)
}
