package app

import (
	"net"
	"net/http"
	"os"
	"slices"

	v1 "glowplug/api/v1"
	"glowplug/internal/image"
	"glowplug/internal/store/leading"
	"glowplug/internal/store/members"
	"glowplug/internal/version"
)

// Stores of a Member.
const (
	storeEmbedded = "Embedded"
	storeNATS     = "NATS"
)

// openMembers makes the elections among the servers of the store, and the list of them.
func openMembers(a builder) error {
	id, err := a.backend.Server()
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		a.log.Warn("the name of this machine is not known", "error", err)
	}
	elections := leading.Options{Server: id, Changed: func() { a.members.Changed() }, Logger: a.log}
	if records := a.backend.Leaders(); records != nil {
		elections.Records = records
	}
	a.leading = leading.New(elections)
	about := aboutMember(a)
	checks := a.checks()
	request, err := http.NewRequest(http.MethodGet, "/readyz", http.NoBody)
	if err != nil {
		return err
	}
	a.members = members.New(members.Options{
		Server: id, Host: host, Exclusive: a.backend.Exclusive(), Lead: a.leading.Run, Logger: a.log, Registerer: a.metrics,
		Describe: func() v1.MemberStatus {
			s := about
			s.StoreLag, s.Leads = a.backend.Lag(), a.leading.Names()
			s.Images = offers(a.images)
			s.DataFree, s.ImagesFree = free(a.settings.Store.DataDir), free(a.settings.Images.ISODir)
			for _, check := range checks {
				if err := check.Check(request); err != nil {
					s.Errors = append(s.Errors, check.Name()+": "+err.Error())
				}
			}
			return s
		},
	})
	return nil
}

// aboutMember returns what stays as it is while this server runs.
func aboutMember(a builder) v1.MemberStatus {
	s := v1.MemberStatus{Version: version.Version, HTTP: a.httpURL(), Store: storeNATS}
	if a.backend.Exclusive() {
		s.Store = storeEmbedded
	}
	if portal := a.portal(); portal.IsValid() {
		s.Portal = portal.String()
	}
	for _, d := range a.listeners {
		at := d.listener.Addr().String()
		_, port, err := net.SplitHostPort(at)
		if err != nil || d.name != "http" && d.name != "https" {
			continue
		}
		s.Address = ownAddress(at).String()
		if d.name == "https" {
			s.HTTPS = "https://" + net.JoinHostPort(s.Address, port)
		}
	}
	return s
}

// maxOffers bounds the images in a Member.
const maxOffers = 256

// offers names the images that this server offers over iSCSI.
func offers(images *image.Library) []string {
	var all []string
	for _, ref := range images.Targets() {
		if name := offered(images, ref); name != "" {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all[:min(len(all), maxOffers)]
}

// free returns what is free on the disk of a folder, in bytes; nil where that is not known, or there is no folder.
func free(folder string) *int64 {
	if folder == "" {
		return nil
	}
	bytes, err := image.FreeSpace(folder)
	if err != nil || bytes > 1<<62 { // the most where the system does not say it
		return nil
	}
	return new(int64(bytes))
}
