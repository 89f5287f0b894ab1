package console

import (
	"net/http"
	"net/url"
	"testing"

	v1 "glowplug/api/v1"
	"glowplug/internal/client"
	"glowplug/internal/testkit"
)

// markup is what an attacker writes into each field that he can set. It would show itself by a request, an entry in
// the console, or window.hacked.
const markup = `"'><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>{{.}}`

// TestStoredMarkupIsText: what users and booting machines write is shown as text on every page.
func TestStoredMarkupIsText(t *testing.T) {
	s := start(t, "--trusted-proxies", "127.0.0.0/8", "--neighbors", "off", "--iso-dir", t.TempDir(),
		"--iscsi-listen", freeAddress(t))
	quoted := quote(markup)
	s.apply(`
apiVersion: v1
kind: BareMetalHost
metadata: {name: evil, namespace: rack-a, annotations: {note: ` + quoted + `}}
spec: {bootMACAddress: "52:54:00:00:00:01", ip: 192.0.2.1, image: evil, kernelArgs: [` + quoted + `], labels: {role: worker}}
---
apiVersion: v1
kind: ISCSICdrom
metadata: {name: evil, namespace: rack-a}
spec: {isoFile: missing.iso, description: ` + quoted + `, version: ` + quoted + `}
---
apiVersion: v1
kind: IgnitionConfig
metadata: {name: evil, namespace: rack-a}
spec: {type: ignition, format: butane, selector: {matchLabels: {role: worker}}, config: ` +
		quote("variant: fcos\nversion: 1.5.0\n"+quote(markup)+": 1\n") + `}
`)
	said := url.Values{"mac": {"52:54:00:00:00:99"}, "serial": {markup}, "product": {markup},
		"manufacturer": {markup}, "uuid": {"4c4c4544-0051-3510-8052-b4c04f4d3132"}}
	for _, address := range []string{"192.0.2.1", "192.0.2.99"} {
		testkit.Until(t, "the machine is answered", func() bool {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.plain+"/ipxe?"+said.Encode(), nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("X-Forwarded-For", address)
			request.Header.Set("User-Agent", markup)
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				return false
			}
			_ = answer.Body.Close()
			request.URL.Path = "/api/v1/ignition"
			if answer, err = http.DefaultClient.Do(request); err == nil {
				_ = answer.Body.Close()
			}
			return err == nil
		})
	}
	machines := &v1.UnknownMachineList{}
	testkit.Until(t, "the unknown machine is listed", func() bool {
		_, err := s.api("admin").Do(t.Context(), &client.Request{Resource: "unknownmachines"}, machines)
		return err == nil && len(machines.Items) == 1
	})
	tab := browser(t, s.admin)
	tab.expect("status of 4") // of pages about what does not exist
	for _, path := range []string{
		"", "hosts/rack-a/evil", "hosts/rack-a/evil/image?image=" + url.QueryEscape(markup),
		"hosts/rack-a/evil/labels?labels=" + url.QueryEscape("a="+markup), "unknown",
		"unknown/" + machines.Items[0].Name + "/adopt?name=x&labels=" + url.QueryEscape(markup), "configs", "configs/rack-a/evil",
		"images", "images/rack-a/evil", "boots", "boots?host=" + url.QueryEscape(markup), "boots/rack-a/evil.1", "events",
		"events?reason=" + url.QueryEscape(markup), "server", "find?q=" + url.QueryEscape(markup),
		"hosts/rack-a/" + url.PathEscape(markup), "?label=" + url.QueryEscape(markup) + "&group=" + url.QueryEscape(markup),
	} {
		tab.open("/console/" + path)
		if evaluate[bool](tab, "window.hacked !== undefined || document.querySelector('img') !== null") {
			t.Errorf("%s makes markup of what somebody wrote", path)
		}
	}
}
