package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
)

// unknownServer is a server with two unknown machines and the host rack-a/taken. It appends
// each host that is sent to it to created.
func unknownServer(t *testing.T, created *[]v1.BareMetalHost) string {
	machines := []v1.UnknownMachine{
		{ObjectMeta: metav1.ObjectMeta{Name: "52-54-00-12-34-56"}, Status: v1.UnknownMachineStatus{
			MAC: "52:54:00:12:34:56", SystemUUID: "4c4c4544-0042-3510-8056-b4c04f4e3132", Product: "R640",
			Addresses: []string{"192.0.2.9", "192.0.2.8"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "192-0-2-20"}, Status: v1.UnknownMachineStatus{
			Addresses: []string{"192.0.2.20"}}},
	}
	server := httptest.NewServer(asGlowplug(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		name, isMachine := strings.CutPrefix(r.URL.Path, "/api/v1/unknownmachines/")
		for i := range machines {
			if isMachine && machines[i].Name == name {
				_ = json.NewEncoder(w).Encode(&machines[i])
				return
			}
		}
		switch {
		case r.URL.Path == "/api/v1/unknownmachines":
			_ = json.NewEncoder(w).Encode(&v1.UnknownMachineList{Items: machines})
		case r.Method == http.MethodGet && r.URL.Path == "/api/v1/baremetalhosts":
			_ = json.NewEncoder(w).Encode(&v1.BareMetalHostList{})
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/baremetalhosts"):
			var host v1.BareMetalHost
			if err := json.NewDecoder(r.Body).Decode(&host); err != nil {
				t.Error(err)
			}
			if host.Name == "taken" {
				w.WriteHeader(http.StatusConflict)
				return
			}
			*created = append(*created, host)
			if host.Spec.Image == "nowhere" {
				w.Header().Set("Warning", `299 - "spec.image: there is no ISCSICdrom nowhere"`)
			}
			host.UID = "uid-1"
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(&host)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestAdopt(t *testing.T) {
	manifest := `apiVersion: v1
kind: BareMetalHost
metadata:
  labels:
    role: builder
  name: node-7
  namespace: rack-a
spec:
  bootMACAddress: "52:54:00:12:34:56"
  image: coreos
  systemUUID: 4c4c4544-0042-3510-8056-b4c04f4e3132
`
	for name, c := range map[string]struct {
		args    string
		code    int
		out     string
		errs    string
		created int
		spec    v1.BareMetalHostSpec
	}{
		"created": {"um/52-54-00-12-34-56 -n rack-a --name node-7", 0, "baremetalhost/node-7 created\n", "", 1,
			v1.BareMetalHostSpec{BootMACAddress: "52:54:00:12:34:56", SystemUUID: "4c4c4544-0042-3510-8056-b4c04f4e3132"}},
		"plain name": {"52:54:00:12:34:56", 0, "baremetalhost/52-54-00-12-34-56 created\n", "", 1,
			v1.BareMetalHostSpec{BootMACAddress: "52:54:00:12:34:56", SystemUUID: "4c4c4544-0042-3510-8056-b4c04f4e3132"}},
		"its address": {"unknownmachine/52-54-00-12-34-56 --with-address --image coreos --name x", 0, "baremetalhost/x created\n", "", 1,
			v1.BareMetalHostSpec{BootMACAddress: "52:54:00:12:34:56", SystemUUID: "4c4c4544-0042-3510-8056-b4c04f4e3132",
				IP: "192.0.2.9", Image: "coreos"}},
		"a warning of the server": {"um/52-54-00-12-34-56 --image nowhere --name x", 0, "baremetalhost/x created\n",
			"warning: spec.image: there is no ISCSICdrom nowhere\n", 1, v1.BareMetalHostSpec{
				BootMACAddress: "52:54:00:12:34:56", SystemUUID: "4c4c4544-0042-3510-8056-b4c04f4e3132", Image: "nowhere"}},
		"manifest": {"um/52-54-00-12-34-56 -n rack-a --name node-7 --image coreos --label role=builder --dry-run=client -o yaml",
			0, manifest, "", 0, v1.BareMetalHostSpec{}},
		"dry run": {"um/52-54-00-12-34-56 --name x --dry-run=client", 0, "baremetalhost/x created (dry run)\n", "", 0,
			v1.BareMetalHostSpec{}},
		"exists": {"um/52-54-00-12-34-56 -n rack-a --name taken", 1, "",
			"error: the BareMetalHost rack-a/taken exists already, and was not changed\nhint: choose another --name", 0,
			v1.BareMetalHostSpec{}},
		"no such machine": {"um/none", 1, "", "error: there is no UnknownMachine none\nhint: kubectl get um", 0,
			v1.BareMetalHostSpec{}},
		"no hardware address": {"um/192-0-2-20", 1, "",
			"error: the hardware address of the machine 192-0-2-20 is unknown\nhint: --with-address", 0, v1.BareMetalHostSpec{}},
		"by address": {"um/192-0-2-20 --with-address", 0, "baremetalhost/192-0-2-20 created\n", "", 1,
			v1.BareMetalHostSpec{IP: "192.0.2.20"}},
		"by address, as earlier": {"um/192-0-2-20 --ip", 0, "baremetalhost/192-0-2-20 created\n", "", 1,
			v1.BareMetalHostSpec{IP: "192.0.2.20"}},
		"another kind":  {"bmh/x", 2, "", `error: "bmh/x" is no UnknownMachine`, 0, v1.BareMetalHostSpec{}},
		"an empty name": {"um/", 2, "", "error: the name of the UnknownMachine is empty", 0, v1.BareMetalHostSpec{}},
		"no name":       {"", 2, "", "error: missing argument um/MACHINE", 0, v1.BareMetalHostSpec{}},
	} {
		t.Run(name, func(t *testing.T) {
			var created []v1.BareMetalHost
			args := append([]string{"adopt", "--server", unknownServer(t, &created)}, strings.Fields(c.args)...)
			var out, errs strings.Builder
			code := Main(args, strings.NewReader(""), &out, &errs)
			if code != c.code || out.String() != c.out || !strings.HasPrefix(errs.String(), c.errs) ||
				len(created) != c.created {
				t.Errorf("%d, %d created\n%s%s", code, len(created), out.String(), errs.String())
			}
			if len(created) == 1 && (created[0].Spec.BootMACAddress != c.spec.BootMACAddress ||
				created[0].Spec.IP != c.spec.IP || created[0].Spec.SystemUUID != c.spec.SystemUUID ||
				created[0].Spec.Image != c.spec.Image) {
				t.Errorf("%+v", created[0].Spec)
			}
		})
	}
}

// TestAdoptLeavesOutSharedUUIDs: a UUID that several machines report, or a host has, or that is known as a
// placeholder of a vendor, would identify other machines as the host.
func TestAdoptLeavesOutSharedUUIDs(t *testing.T) {
	const own, model, taken = "4c4c4544-0042-3510-8056-b4c04f4e3132", "9f2c7a10-1122-4c3d-8e4f-5a6b7c8d9e0f",
		"7a1e0c55-9b2d-4f10-a3c4-0123456789ab"
	machine := func(name, uuid string) v1.UnknownMachine {
		return v1.UnknownMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.UnknownMachineStatus{
			MAC: strings.ReplaceAll(name, "-", ":"), SystemUUID: uuid}}
	}
	machines := []v1.UnknownMachine{
		machine("02-00-00-00-00-01", own), machine("02-00-00-00-00-02", model),
		machine("02-00-00-00-00-03", "107a2c9f-2211-3d4c-8e4f-5a6b7c8d9e0f"), // model, in the other byte order
		machine("02-00-00-00-00-04", taken), machine("02-00-00-00-00-05", "03000200-0400-0500-0006-000700080009"),
	}
	hosts := v1.BareMetalHostList{Items: []v1.BareMetalHost{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "h"}}}}
	for _, tenant := range []bool{false, true} {
		var created v1.BareMetalHost
		server := httptest.NewServer(asGlowplug(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			name := path.Base(r.URL.Path)
			i := slices.IndexFunc(machines, func(m v1.UnknownMachine) bool { return m.Name == name })
			selector := r.URL.Query().Get("fieldSelector")
			switch {
			case i >= 0:
				_ = json.NewEncoder(w).Encode(&machines[i])
			case r.Method == http.MethodPost:
				created = v1.BareMetalHost{}
				_ = json.NewDecoder(r.Body).Decode(&created)
				w.WriteHeader(http.StatusCreated)
				_ = json.NewEncoder(w).Encode(&created)
			case tenant && !strings.Contains(r.URL.Path, "/namespaces/default/"):
				w.WriteHeader(http.StatusForbidden)
			case name == "unknownmachines":
				_ = json.NewEncoder(w).Encode(&v1.UnknownMachineList{Items: machines})
			case selector == "spec.systemUUID="+taken:
				_ = json.NewEncoder(w).Encode(&hosts)
			default:
				_ = json.NewEncoder(w).Encode(&v1.BareMetalHostList{})
			}
		}))
		for i, want := range []string{"", "UnknownMachine 02-00-00-00-00-03 reports it too",
			"UnknownMachine 02-00-00-00-00-02 reports it too", "BareMetalHost a/h has it", "many machines report it"} {
			if tenant && (i == 1 || i == 2) {
				want = ""
			}
			var out, errs strings.Builder
			code := Main([]string{"adopt", "--server", server.URL, machines[i].Name}, strings.NewReader(""), &out, &errs)
			wantUUID := machines[i].Status.SystemUUID
			if want != "" {
				wantUUID = ""
			}
			if code != 0 || !strings.Contains(errs.String(), want) || created.Spec.SystemUUID != wantUUID ||
				(want == "") != (errs.String() == "") {
				t.Errorf("tenant %v, %s: %d %s%s, systemUUID %q", tenant, machines[i].Name, code, out.String(), errs.String(),
					created.Spec.SystemUUID)
			}
		}
		server.Close()
	}
}

// TestAdoptCompletes: the shell completes the names of unknown machines, with and without um/.
func TestAdoptCompletes(t *testing.T) {
	url := unknownServer(t, new([]v1.BareMetalHost))
	for typed, want := range map[string]string{
		"um/": "um/52-54-00-12-34-56\tR640\num/192-0-2-20\n", "52": "52-54-00-12-34-56\tR640\n",
	} {
		var out, errs strings.Builder
		Main([]string{"__complete", "adopt", "--server", url, typed}, strings.NewReader(""), &out, &errs)
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("%q: %q %s", typed, out.String(), errs.String())
		}
	}
}
