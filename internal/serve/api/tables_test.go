package api

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	v1 "glowplug/api/v1"
)

var update = flag.Bool("update", false, "write the golden files anew")

func ago(d time.Duration) metav1.Time { return metav1.NewTime(time.Now().Add(-d)) }

func micro(d time.Duration) *metav1.MicroTime {
	t := metav1.NewMicroTime(ago(d).Time)
	return &t
}

func TestTables(t *testing.T) {
	hour := ago(time.Hour)
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, CreationTimestamp: ago(25 * time.Hour)}
	}
	tests := map[string]struct {
		convert rest.TableConvertor
		list    runtime.Object
	}{
		"ignitionconfigs": {configTable(nil), &v1.IgnitionConfigList{Items: []v1.IgnitionConfig{
			{ObjectMeta: meta("builder"), Spec: v1.IgnitionConfigSpec{Type: "ignition", Format: "butane",
				Selector: v1.IgnitionConfigSelector{
					MatchMACs: []string{"AC:1F:6B:8A:A7:9C"}, MatchIPs: []string{"192.0.2.1", "192.0.2.2"},
					MatchLabels: map[string]string{"role": "builder", "a": "b"}, Default: true}},
				Status: v1.IgnitionConfigStatus{Phase: "Ready", CompiledSize: 4096, ConfigHash: "sha256:0123456789abcdef",
					Servable: []v1.ServableVersions{{Versions: "2.0.0-2.1.0", BlockedBy: []string{"x"}}, {Versions: "2.2.0"},
						{Versions: "3.0.0-3.6.0"}}}},
			{ObjectMeta: meta("broken"), Spec: v1.IgnitionConfigSpec{Type: "ignition", Format: "ignition"},
				Status: v1.IgnitionConfigStatus{Phase: "Error", ErrorMessage: "line 3:1: unused key"}},
			{ObjectMeta: meta("server"), Spec: v1.IgnitionConfigSpec{Type: "kickstart", Format: "kickstart",
				Selector: v1.IgnitionConfigSelector{
					MatchMACs: []string{"52-54-00-*"}, MatchHostnames: []string{"a", "b", "c"}}},
				Status: v1.IgnitionConfigStatus{Phase: "Pending"}},
		}}},
		"templates": {configTable(nil), &v1.IgnitionConfigList{Items: []v1.IgnitionConfig{
			{ObjectMeta: meta("worker"), Spec: v1.IgnitionConfigSpec{Type: "ignition", Format: "butane", Template: true},
				Status: v1.IgnitionConfigStatus{
					Phase: "Error", ErrorMessage: "2 of 40 hosts fail", Hosts: &v1.RenderedHosts{Total: 40, Ready: 38, Failed: 2}}},
		}}},
		"baremetalhosts": {hostTable(nil), &v1.BareMetalHostList{Items: []v1.BareMetalHost{
			{ObjectMeta: meta("server1"), Spec: v1.BareMetalHostSpec{BootMACAddress: "ac:1f:6b:8a:a7:9c", IP: "192.0.2.1",
				Image: "coreos"}, Status: v1.BareMetalHostStatus{State: "Provisioned", LastBoot: &hour, LastConfig: "g10/builder"}},
			{ObjectMeta: meta("server2"), Spec: v1.BareMetalHostSpec{Hostname: "two.example"},
				Status: v1.BareMetalHostStatus{State: "Available"}},
		}}},
		"iscsicdroms": {cdromTable, &v1.ISCSICdromList{Items: []v1.ISCSICdrom{
			{ObjectMeta: meta("coreos"), Spec: v1.ISCSICdromSpec{ISOFile: "fcos.iso"},
				Status: v1.ISCSICdromStatus{Phase: "Ready", Distro: "fcos", ISOSize: 900 << 20,
					Architectures: []string{"aarch64", "x86_64"},
					TargetIQN:     "iqn.2000-02.com.example:coreos"}},
			{ObjectMeta: meta("router"), Spec: v1.ISCSICdromSpec{External: &v1.ExternalTarget{Portal: "192.0.2.254",
				IQN: "iqn.2000-02.com.mikrotik:cdrom"}, IgnitionConfig: "builder"}, Status: v1.ISCSICdromStatus{Phase: "Pending"}},
			{ObjectMeta: meta("remote"), Spec: v1.ISCSICdromSpec{URL: "https://example.org/x.iso"},
				Status: v1.ISCSICdromStatus{Phase: "Error", ErrorMessage: "digest differs"}},
			{ObjectMeta: meta("stream"), Spec: v1.ISCSICdromSpec{Stream: &v1.StreamImage{Name: "stable", Update: "follow"}},
				Status: v1.ISCSICdromStatus{Phase: "Ready", ServedRelease: "41.20241215.3.0", ISOSize: 900 << 20}},
		}}},
		"namespaces": {namespaceTable(nil), &v1.NamespaceList{Items: []v1.Namespace{{ObjectMeta: meta("default"),
			Status: v1.NamespaceStatus{Phase: "Active"}}}}},
		"unknownmachines": {unknownTable, &v1.UnknownMachineList{Items: []v1.UnknownMachine{
			{ObjectMeta: meta("52-54-00-12-34-56"), Status: v1.UnknownMachineStatus{MAC: "52:54:00:12:34:56",
				Addresses: []string{"192.0.2.7", "192.0.2.6"}, Product: "R640", Serial: "S1", Count: 3,
				LastSeen: ago(time.Minute), Requests: []string{"ipxe", "ignition"}, Manufacturer: "Dell",
				Architecture: "x86_64", Hostnames: []string{"a", "b"}, NeighborMAC: "52:54:00:12:34:56"}},
			{ObjectMeta: meta("192-0-2-9"), Status: v1.UnknownMachineStatus{Addresses: []string{"192.0.2.9"}, Count: 1}},
		}}},
		"members": {memberTable, &v1.MemberList{Items: []v1.Member{
			{ObjectMeta: meta("boot-1"), Status: v1.MemberStatus{State: "Ready", Version: "1.2.0", Address: "192.0.2.1",
				LastSeen: ago(5 * time.Second), Started: hour, Leads: []string{"backup", "members"},
				HTTP: "http://192.0.2.1:8080", HTTPS: "https://192.0.2.1:8443", Portal: "192.0.2.1:3260"}},
			{ObjectMeta: meta("boot-2"), Status: v1.MemberStatus{State: "NotReady", Version: "1.2.0", Address: "192.0.2.2",
				LastSeen: ago(time.Second), Started: hour, StoreLag: 7, Errors: []string{"manifests: not yet applied"}}},
			{ObjectMeta: meta("boot-3"), Status: v1.MemberStatus{State: "Missing", Version: "1.1.0",
				Address: "192.0.2.3", LastSeen: hour, Started: hour}},
		}}},
		"boots": {bootTable, &v1.BootList{Items: []v1.Boot{
			{ObjectMeta: meta("server1.7"), Host: "server1", Number: 7, Outcome: "Failed", Begun: micro(time.Hour),
				Ended: micro(55 * time.Minute), Client: "192.0.2.1", Reason: "no config matches",
				Image: &v1.BootImage{Name: "g10/coreos"}, Steps: []v1.BootStep{{Name: "Script"}, {Name: "Config"}}},
			{ObjectMeta: meta("server1.6"), Host: "server1", Number: 6, Outcome: "Booting", Begun: micro(2 * time.Hour),
				Config: &v1.BootConfig{Name: "g10/builder"}},
			{ObjectMeta: meta("server2.0"), Host: "server2"},
		}}},
		"events": {eventTable, &v1.EventList{Items: []v1.Event{
			{ObjectMeta: meta("server1.1"), InvolvedObject: v1.ObjectReference{Kind: "BareMetalHost", Name: "server1"},
				Type: "Normal", Reason: "Served", Message: "served g10/builder\n", Count: 3, FirstTimestamp: hour,
				LastTimestamp: ago(time.Minute), Source: v1.EventSource{Component: "glowplug", Host: "a"}},
			{ObjectMeta: meta("x.2"), EventTime: metav1.NewMicroTime(hour.Time), Type: "Warning", Reason: "UnknownHost",
				Message: "who is that", ReportingController: "glowplug"},
		}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			table, err := test.convert.ConvertToTable(t.Context(), test.list, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := render(table, false) + "\n" + render(table, true)
			golden := filepath.Join("testdata", "tables", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			without, err := test.convert.ConvertToTable(t.Context(), test.list, &metav1.TableOptions{NoHeaders: true})
			if err != nil || without.ColumnDefinitions != nil {
				t.Error("a table without headers has them")
			}
		})
	}
	empty, err := hostTable(nil).ConvertToTable(t.Context(), &v1.BareMetalHostList{}, nil)
	if err != nil || empty.Rows == nil {
		t.Errorf("the table of an empty list has null and not no rows: %v", err)
	}
	if _, err := hostTable(nil).ConvertToTable(t.Context(), &v1.Event{}, nil); err == nil {
		t.Error("a host's table of an event")
	}
}

// render prints a table as kubectl does.
func render(table *metav1.Table, wide bool) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 3, ' ', 0)
	line := func(cell func(i int) any) {
		var cells []string
		for i, column := range table.ColumnDefinitions {
			if wide || column.Priority == 0 {
				cells = append(cells, fmt.Sprint(cell(i)))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	line(func(i int) any { return strings.ToUpper(table.ColumnDefinitions[i].Name) })
	for _, row := range table.Rows {
		line(func(i int) any { return row.Cells[i] })
	}
	w.Flush()
	return out.String()
}
