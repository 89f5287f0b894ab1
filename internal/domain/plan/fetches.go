package plan

import (
	"fmt"
	"net/url"
	"strings"

	"glowplug/internal/domain/ignition"
)

// fetches plans what Ignition fetches while it runs, apart from data URLs.
func fetches(config *ignition.Config, failed bool) []*step {
	var steps []*step
	var contents ignition.Contents
	add := func(resource ignition.Resource, field, what string) {
		source := value(resource.Source)
		if fault := contents.Fault(resource); fault != "" && !strings.HasPrefix(field, "storage.files.") {
			steps = append(steps, &step{Step: Step{
				Action: Fail, Kind: "source", Name: "content in the config", Detail: "for " + what, Rule: fault, Field: field,
			}})
		}
		if source == "" || strings.HasPrefix(source, "data:") {
			return
		}
		s := &step{Step: Step{Action: Fetch, Kind: "source", Name: shownURL(source), Detail: "for " + what, Field: field}}
		s.NotReached = failed && !strings.HasPrefix(field, "ignition.")
		if hash := value(resource.Verification.Hash); hash != "" {
			algorithm, _, _ := strings.Cut(hash, "-")
			s.Rule = "the content is verified by its " + algorithm
		} else {
			s.Rule = "the content is not verified: Ignition takes what the server sends"
			s.Field = field + ".verification.hash"
		}
		if strings.HasPrefix(source, "http") {
			s.Notes = append(s.Notes, "Ignition asks again while the server does not answer or answers with 5xx, and fails on "+
				"any other error")
		}
		steps = append(steps, s)
	}
	ign := &config.Ignition
	add(ign.Config.Replace, "ignition.config.replace", "a config in place of this one: this plan does not have it")
	for i, r := range ign.Config.Merge {
		add(r, fmt.Sprintf("ignition.config.merge.%d", i), "a config that is merged in: this plan does not have it")
	}
	for i, r := range ign.Security.TLS.CertificateAuthorities {
		add(r, fmt.Sprintf("ignition.security.tls.certificateAuthorities.%d", i), "certificates that Ignition trusts")
	}
	for i, l := range config.Storage.Luks {
		add(l.KeyFile, fmt.Sprintf("storage.luks.%d.keyFile", i), "the key of "+l.Name)
	}
	for i, f := range config.Storage.Files {
		add(f.Contents, fmt.Sprintf("storage.files.%d.contents", i), f.Path)
		for j, r := range f.Append {
			add(r, fmt.Sprintf("storage.files.%d.append.%d", i, j), f.Path)
		}
	}
	return steps
}

// origin says where the contents of a file come from; "" for none.
func origin(r ignition.Resource) string {
	source := value(r.Source)
	switch {
	case r.Source == nil:
		return ""
	case source == "" || strings.HasPrefix(source, "data:"):
		return "in the config"
	}
	return "from " + shownURL(source)
}

// shownURL is a URL without what can be a secret: user, password and query.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a URL that cannot be read"
	}
	u.User, u.Fragment = nil, ""
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return strings.Replace(u.String(), "?%E2%80%A6", "?…", 1)
}
