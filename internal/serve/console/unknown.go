package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/domain/kinds"
	"glowplug/internal/domain/wording"
)

// maxUnknown is how many unknown machines are listed.
const maxUnknown = 200

// unknownPage is what the template of the unknown machines shows.
type unknownPage struct {
	Machines   []v1.UnknownMachine
	Namespaces []string // in which the user may make hosts, as far as that is known
	Images     []string
	Refused    string // why the list is not shown
}

// unknown shows the machines that asked and that nobody knows.
func (s *Server) unknown(w http.ResponseWriter, _ *http.Request, p *page) {
	p.Title, p.Section = "Unknown machines", "unknown"
	data := &unknownPage{Namespaces: p.namespaceNames(kinds.BareMetalHosts)}
	if err := p.get(kinds.UnknownMachines, "", "", url.Values{"limit": {"1"}}, nil); err != nil {
		data.Refused = sentence(err)
	}
	data.Machines = p.unknownMachines(maxUnknown)
	data.Images = p.imageNames()
	p.show(w, "unknown", data)
}

// imageNames returns the images that the user may list, as namespace/name.
func (p *page) imageNames() (names []string) {
	each(p, kinds.ISCSICdroms, url.Values{"limit": {"500"}}, func(list *v1.ISCSICdromList) {
		for i := range list.Items {
			names = append(names, list.Items[i].Namespace+"/"+list.Items[i].Name)
		}
	})
	slices.Sort(names)
	return names
}

// adopt shows and makes the host that an unknown machine becomes.
func (s *Server) adopt(w http.ResponseWriter, r *http.Request, p *page) {
	p.Section = "unknown"
	machine := &v1.UnknownMachine{}
	name := r.PathValue("name")
	if err := p.get(kinds.UnknownMachines, "", name, nil, machine); err != nil {
		if client.Code(err) == http.StatusNotFound {
			err = wording.NoMachine(name)
		}
		p.fail(w, "UnknownMachine "+name, err)
		return
	}
	wish := adoptionOf(r.FormValue)
	c := &change{Title: "Adopt " + name, Button: "Adopt", Back: Prefix + "unknown", Fields: adoptionFields(r.FormValue)}
	if note := p.noUUID(machine, wish.Namespace); note != "" {
		c.Notes = append(c.Notes, note)
		machine.Status.SystemUUID = ""
	}
	host, err := wish.Host(machine)
	if err != nil {
		p.fail(w, "Adopt "+name, err)
		return
	}
	ref := host.Namespace + "/" + host.Name
	if there := (&v1.BareMetalHost{}); p.get(kinds.BareMetalHosts, host.Namespace, host.Name, nil, there) == nil {
		p.fail(w, "Adopt "+name, wording.HostExists(there))
		return
	}
	c.Notes = append(c.Notes, p.newNamespace(host.Namespace)...)
	c.What = fmt.Sprintf("The machine becomes the BareMetalHost %s, and boots %s.", ref, bootText(host))
	c.Command = adoptCommand(name, &wish)
	c.Done = objectURL("hosts", host.Namespace, host.Name)
	c.Apply = []any{applied("BareMetalHost", host)}
	c.Request = creation(kinds.BareMetalHosts, host.Namespace, host)
	p.review(w, c)
}

// adoptionOf reads the form of an adoption.
func adoptionOf(field func(string) string) wording.Adoption {
	wish := wording.Adoption{
		Namespace: strings.TrimSpace(field("namespace")), Name: strings.TrimSpace(field("name")),
		Image: strings.TrimSpace(field("image")), WithAddress: field("with-address") != "", Labels: map[string]string{},
	}
	if wish.Namespace == "" {
		wish.Namespace = v1.NamespaceDefault
	}
	for pair := range strings.FieldsSeq(strings.ReplaceAll(field("labels"), ",", " ")) {
		key, value, _ := strings.Cut(pair, "=")
		wish.Labels[key] = value
	}
	return wish
}

func adoptionFields(field func(string) string) url.Values {
	fields := url.Values{}
	for _, name := range []string{"namespace", "name", "image", "with-address", "labels"} {
		if value := field(name); value != "" {
			fields.Set(name, value)
		}
	}
	return fields
}

// adoptCommand is the same adoption on the command line.
func adoptCommand(machine string, wish *wording.Adoption) string {
	command := "glowplug adopt " + quoted("um/"+machine) + " -n " + quoted(wish.Namespace)
	if wish.Name != "" {
		command += " --name " + quoted(wish.Name)
	}
	if wish.Image != "" {
		command += " --image " + quoted(wish.Image)
	}
	for _, key := range slices.Sorted(maps.Keys(wish.Labels)) {
		command += " --label " + quoted(key+"="+wish.Labels[key])
	}
	if wish.WithAddress {
		command += " --with-address"
	}
	return command
}

// noUUID says why the host gets no systemUUID although its machine reports one; "": nothing is known against it.
func (p *page) noUUID(machine *v1.UnknownMachine, namespace string) string {
	uuid := machine.Status.SystemUUID
	if uuid == "" {
		return ""
	}
	hosts, query := &v1.BareMetalHostList{}, url.Values{"fieldSelector": {"spec.systemUUID=" + uuid}}
	if p.get(kinds.BareMetalHosts, "", "", query, hosts) != nil {
		_ = p.get(kinds.BareMetalHosts, namespace, "", query, hosts) // the API refuses what the user may not write
	}
	return wording.NoUUID(machine, p.unknownMachines(maxUnknown), hosts.Items)
}

// forget shows and makes the removal of an unknown machine from the list.
func (s *Server) forget(w http.ResponseWriter, r *http.Request, p *page) {
	p.Section = "unknown"
	name := r.PathValue("name")
	p.review(w, &change{
		Title: "Delete " + name, Button: "Delete", Back: Prefix + "unknown",
		What:    "The machine leaves the list, and comes back when it asks again.",
		Command: "kubectl delete um " + quoted(name),
		Request: client.Request{Method: http.MethodDelete, Resource: kinds.UnknownMachines, Name: name},
	})
}

// jsonText is a value as JSON for people, without escapes for HTML.
func jsonText(v any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // of strings
	}
	return strings.TrimSuffix(text.String(), "\n")
}
