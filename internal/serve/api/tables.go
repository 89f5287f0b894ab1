package api

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apiserver/pkg/registry/rest"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/report"
	"glowplug/internal/store/snapshot"
)

// table makes the tables of one kind for kubectl get.
type table[T runtime.Object] struct {
	columns []metav1.TableColumnDefinition
	row     func(obj T, now time.Time) []any
}

// ConvertToTable makes a table of an object or a list.
func (t *table[T]) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{Rows: []metav1.TableRow{}} // an empty list has no rows, and not null
	now := time.Now()
	add := func(item runtime.Object) error {
		typed, ok := item.(T)
		if !ok {
			return fmt.Errorf("a table cannot be made of %T", item)
		}
		out.Rows = append(out.Rows, metav1.TableRow{Cells: t.row(typed, now), Object: runtime.RawExtension{Object: item}})
		return nil
	}
	if meta.IsListType(obj) {
		if err := meta.EachListItem(obj, add); err != nil {
			return nil, err
		}
	} else if err := add(obj); err != nil {
		return nil, err
	}
	if list, err := meta.ListAccessor(obj); err == nil {
		out.ResourceVersion = list.GetResourceVersion()
		out.Continue = list.GetContinue()
		out.RemainingItemCount = list.GetRemainingItemCount()
	} else if common, err := meta.CommonAccessor(obj); err == nil {
		out.ResourceVersion = common.GetResourceVersion()
	}
	if opts, ok := options.(*metav1.TableOptions); !ok || !opts.NoHeaders {
		out.ColumnDefinitions = t.columns
	}
	return out, nil
}

func text(name, description string) metav1.TableColumnDefinition {
	column := metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
	if name == "Name" {
		column.Format = "name"
	}
	return column
}

func integer(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "integer", Description: description}
}

// wide makes a column one that -o wide shows.
func wide(column metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	column.Priority = 1
	return column
}

func configTable(status HostStatus) *table[*v1.IgnitionConfig] {
	return &table[*v1.IgnitionConfig]{columns: []metav1.TableColumnDefinition{
		text("Name", "The config's name."),
		text("Type", "ignition or kickstart."),
		text("Format", "The language of the source."),
		text("Phase", "Pending, Ready, or Error; -o wide has the reason."),
		text("Size", "The size of what machines are served."),
		text("Hash", "The beginning of the hash of what machines are served."),
		text("Hosts", "The hosts that it is for. Of a template: those that it is rendered for, of all of them."),
		text("Age", "Time since the config was created."),
		wide(text("Served-As", "The Ignition spec versions that it can be served in.")),
		wide(text("Match", "Which machines it is for.")),
		wide(text("Message", "The reason of the phase Error, or the first warning about the newest source.")),
	},
		row: func(c *v1.IgnitionConfig, now time.Time) []any {
			return []any{c.Name, c.Spec.Type, c.Spec.Format, c.Status.Phase, report.Size(c.Status.CompiledSize),
				compile.ShortHash(c.Status.ConfigHash), hostCount(c, status), age(&c.CreationTimestamp, now),
				servedAs(&c.Status), matchSummary(&c.Spec.Selector), messageOf(&c.Status)}
		}}
}

func hostTable(status HostStatus) *table[*v1.BareMetalHost] {
	return &table[*v1.BareMetalHost]{columns: []metav1.TableColumnDefinition{
		text("Name", "The host's name."),
		text("MAC", "The hardware address that it boots from."),
		text("IP", "Its address."),
		text("Image", "The image that it boots; empty: its disk."),
		text("State", "What it was last seen doing."),
		text("Last-Boot", "Time since it was last given a script that boots it, or a config that began a boot."),
		text("Age", "Time since the host was created."),
		wide(text("Config", "The config that is for it now.")),
		wide(text("Last-Config", "The config that it was last served.")),
		wide(text("Last-Seen", "Time since the last step of its boot.")),
		wide(text("Hostname", "Its name on the network.")),
	},
		row: func(h *v1.BareMetalHost, now time.Time) []any {
			config := ""
			if status != nil {
				config = status.ConfigOf(h)
			}
			return []any{h.Name, plainAddress(fieldMAC, h.Spec.BootMACAddress), h.Spec.IP, h.Spec.Image, h.Status.State,
				age(h.Status.LastBoot, now), age(&h.CreationTimestamp, now), config, h.Status.LastConfig,
				age(h.Status.LastSeen, now), h.EffectiveHostname()}
		}}
}

var cdromTable = &table[*v1.ISCSICdrom]{
	columns: []metav1.TableColumnDefinition{
		text("Name", "The image's name."),
		text("Phase", "Pending, Uploading, Ready or Error."),
		text("Source", "Where the image comes from."),
		text("Distro", "What the image was recognised as."),
		text("Size", "The image's size."),
		text("Age", "Time since the image was created."),
		wide(text("Release", "The release of the stream that is served.")),
		wide(text("Architectures", "Those of the machines that can boot it; empty: not known.")),
		wide(text("Target", "The iSCSI name that it is served under.")),
		wide(text("Config", "The config of hosts that boot it and match nothing more specific.")),
		wide(text("Message", "What is wrong with the image.")),
	},
	row: func(c *v1.ISCSICdrom, now time.Time) []any {
		from, target := c.Spec.ISOFile, c.Status.TargetIQN
		switch {
		case c.Spec.URL != "":
			from = c.Spec.URL
		case c.Spec.Stream != nil:
			s := c.Spec.Stream.WithDefaults()
			from = "stream " + s.Name + ", " + s.Format + ", " + s.Update
		case c.Spec.External != nil:
			from, target = c.Spec.External.Portal, c.Spec.External.IQN
		}
		return []any{c.Name, c.Status.Phase, from, c.Status.Distro, report.Size(c.Status.ISOSize),
			age(&c.CreationTimestamp, now), c.Status.ServedRelease,
			strings.Join(c.Status.Architectures, ","), target, c.Spec.IgnitionConfig, c.Status.ErrorMessage}
	},
}

var configMapTable = &table[*v1.ConfigMap]{
	columns: []metav1.TableColumnDefinition{
		text("Name", "The ConfigMap's name."),
		integer("Data", "The number of its keys."),
		text("Age", "Time since the ConfigMap was created."),
	},
	row: func(cm *v1.ConfigMap, now time.Time) []any {
		return []any{cm.Name, int64(len(cm.Data) + len(cm.BinaryData)), age(&cm.CreationTimestamp, now)}
	},
}

var secretTable = &table[*v1.Secret]{
	columns: []metav1.TableColumnDefinition{
		text("Name", "The Secret's name."),
		text("Type", "Which keys it has."),
		integer("Data", "The number of its keys."),
		text("Age", "Time since the Secret was created."),
	},
	row: func(s *v1.Secret, now time.Time) []any {
		return []any{s.Name, s.Type, int64(len(s.Data)), age(&s.CreationTimestamp, now)}
	},
}

// namespaceTable is the table of namespaces; inventory, which may be nil, knows the islands.
func namespaceTable(inventory *snapshot.Inventory) rest.TableConvertor {
	return &table[*v1.Namespace]{
		columns: []metav1.TableColumnDefinition{
			text("Name", "The namespace's name."),
			text("Status", "Active, or Terminating: what is in it is being deleted."),
			text("Island", "Whether its configs and images are for its own hosts alone, and its hosts get no others."),
			text("Age", "Time since the namespace was created."),
		},
		row: func(n *v1.Namespace, now time.Time) []any {
			isIsland := inventory != nil && inventory.View().Islands().Has(n.Name)
			return []any{n.Name, n.Status.Phase, strconv.FormatBool(isIsland), age(&n.CreationTimestamp, now)}
		},
	}
}

var eventTable = &table[*v1.Event]{
	columns: []metav1.TableColumnDefinition{
		text("Last Seen", "Time since it was last seen."),
		text("Type", "Normal or Warning."),
		text("Reason", "What happened, in a word."),
		text("Object", "What it is about."),
		wide(text("Subobject", "The part of it.")),
		wide(text("Source", "What reports it.")),
		text("Message", "What happened, in a sentence."),
		wide(text("First Seen", "Time since it was first seen.")),
		wide(integer("Count", "How often it was seen.")),
		wide(text("Name", "The event's name.")),
	},
	row: func(e *v1.Event, now time.Time) []any {
		first, last := e.FirstTimestamp, e.LastTimestamp
		if first.IsZero() {
			first = metav1.Time(e.EventTime)
		}
		if last.IsZero() {
			last = first
		}
		component := cmp.Or(e.Source.Component, e.ReportingController)
		if host := e.Source.Host; host != "" {
			component += ", " + host
		}
		object := strings.ToLower(e.InvolvedObject.Kind)
		if e.InvolvedObject.Name != "" {
			object += "/" + e.InvolvedObject.Name
		}
		return []any{age(&last, now), e.Type, e.Reason, object, e.InvolvedObject.FieldPath, component,
			strings.TrimSpace(e.Message), age(&first, now), int64(max(e.Count, 1)), e.Name}
	},
}

var unknownTable = &table[*v1.UnknownMachine]{
	columns: []metav1.TableColumnDefinition{
		text("Name", "The machine's name."),
		text("MAC", "Its hardware address."),
		text("Address", "The address that it last asked from."),
		text("Product", "Its product name."),
		text("Serial", "Its serial number."),
		integer("Count", "How often it asked."),
		text("Last Seen", "Time since it last asked."),
		text("Age", "Time since the object was created."),
		wide(text("Requests", "What it asked for.")),
		wide(text("Manufacturer", "Its manufacturer.")),
		wide(text("Arch", "Its architecture.")),
		wide(text("UUID", "The UUID of its firmware.")),
		wide(text("Hostnames", "The host names that it claims.")),
		wide(text("Neighbor-MAC", "Its hardware address in the server's neighbour table.")),
	},
	row: func(m *v1.UnknownMachine, now time.Time) []any {
		s, address := &m.Status, ""
		if len(s.Addresses) > 0 {
			address = s.Addresses[0]
		}
		return []any{m.Name, s.MAC, address, s.Product, s.Serial, s.Count, age(&s.LastSeen, now),
			age(&m.CreationTimestamp, now), strings.Join(s.Requests, ","), s.Manufacturer, s.Architecture, s.SystemUUID,
			strings.Join(s.Hostnames, ","), s.NeighborMAC}
	},
}

var leaseTable = &table[*v1.Lease]{
	columns: []metav1.TableColumnDefinition{
		text("Name", "The address, with hyphens."),
		text("Address", "The address."),
		text("MAC", "The hardware address of the machine that has it."),
		text("Host", "The host that the machine was."),
		text("Hostname", "The host name that the machine claims."),
		text("State", "Bound, Conflict (a machine uses it without a lease), or Expired."),
		text("Expires", "Time until the address is free."),
		text("Age", "Time since the address was first given."),
		wide(text("Interface", "The network interface of the server.")),
	},
	row: func(l *v1.Lease, now time.Time) []any {
		s, state, left := &l.Status, l.Status.State, "-"
		if s.Expires.After(now) {
			left = duration.HumanDuration(s.Expires.Sub(now))
		} else {
			state = "Expired"
		}
		return []any{l.Name, s.Address, s.MAC, s.Host, s.Hostname, state, left, age(&l.CreationTimestamp, now), s.Interface}
	},
}

var memberTable = &table[*v1.Member]{
	columns: []metav1.TableColumnDefinition{
		text("Name", "The server."),
		text("Version", "The version of the program."),
		text("Address", "The address of the server."),
		text("Ready", "True, False (it runs, and /readyz fails), Missing or Stopped."),
		text("Last Seen", "Time since the server said how it is."),
		integer("Lag", "Changes of the store that the server has not read."),
		text("Leads", "The work that this server does for all of them."),
		text("Age", "Time since the server was first seen."),
		wide(text("Started", "Time since the server was started.")),
		wide(text("HTTP", "The URL for machines.")),
		wide(text("HTTPS", "The URL for clients of the API.")),
		wide(text("Portal", "The address of the iSCSI target.")),
		wide(text("Errors", "What /readyz says fails.")),
	},
	row: func(m *v1.Member, now time.Time) []any {
		s, ready := &m.Status, m.Status.State
		switch ready {
		case v1.MemberReady:
			ready = "True"
		case v1.MemberNotReady:
			ready = "False"
		}
		return []any{m.Name, s.Version, s.Address, ready, age(&s.LastSeen, now), s.StoreLag, strings.Join(s.Leads, ","),
			age(&m.CreationTimestamp, now), age(&s.Started, now), s.HTTP, s.HTTPS, s.Portal, strings.Join(s.Errors, "; ")}
	},
}

// age returns the time since t, and "" for nil.
func age(t *metav1.Time, now time.Time) string {
	switch {
	case t == nil:
		return ""
	case t.IsZero():
		return "<unknown>"
	}
	return duration.HumanDuration(max(0, now.Sub(t.Time)))
}

// hostCount returns the number of the hosts that receive a config; for a template ready/total.
func hostCount(c *v1.IgnitionConfig, status HostStatus) string {
	switch {
	case c.Status.Hosts != nil:
		return fmt.Sprintf("%d/%d", c.Status.Hosts.Ready, c.Status.Hosts.Total)
	case status == nil:
		return ""
	}
	return fmt.Sprint(status.HostsOf(model.Ref{Namespace: c.Namespace, Name: c.Name}))
}

// messageOf returns the error of a config or, without one, its first warning.
func messageOf(s *v1.IgnitionConfigStatus) string {
	if s.ErrorMessage != "" || len(s.Warnings) == 0 {
		return s.ErrorMessage
	}
	message := "warning: " + s.Warnings[0]
	if more := len(s.Warnings) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	return message
}

// servedAs returns the Ignition spec versions to which a config can be converted.
func servedAs(s *v1.IgnitionConfigStatus) string {
	var versions []string
	for _, group := range s.Servable {
		if len(group.BlockedBy) == 0 {
			versions = append(versions, group.Versions)
		}
	}
	return strings.Join(versions, ",")
}

// matchSummary returns in a few words which machines a selector selects.
func matchSummary(s *v1.IgnitionConfigSelector) string {
	var parts []string
	count := func(values []string, plural string) {
		if len(values) == 1 {
			parts = append(parts, values[0])
		} else if len(values) > 1 {
			parts = append(parts, fmt.Sprintf("%d %s", len(values), plural))
		}
	}
	macs := s.MatchMACs
	if len(macs) == 1 {
		macs = []string{plainMACRule(macs[0])}
	}
	count(macs, "MACs")
	count(s.MatchIPs, "IPs")
	count(s.MatchHostnames, "hostnames")
	if len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
		parts = append(parts, metav1.FormatLabelSelector(
			&metav1.LabelSelector{MatchLabels: s.MatchLabels, MatchExpressions: s.MatchExpressions}))
	}
	if s.Default {
		parts = append(parts, "default")
	}
	return cmp.Or(strings.Join(parts, " or "), "<none>")
}

// bootTable shows boots.
var bootTable = &table[*v1.Boot]{columns: []metav1.TableColumnDefinition{
	text("Name", "The host and the number of the boot."),
	text("Outcome", "How far the boot came."),
	text("Image", "The image in the script of the machine."),
	text("Config", "The config that the machine received."),
	text("Step", "The last step that the boot has reached."),
	text("Begun", "Time since the boot began."),
	text("Took", "Time until it ended."),
	wide(text("Client", "The address that the machine asked from.")),
	wide(text("Reason", "Why the boot failed, or why the machine boots its disk.")),
},
	row: func(b *v1.Boot, now time.Time) []any {
		image, config, step := "", "", ""
		if b.Image != nil {
			image = b.Image.Name
		}
		if b.Config != nil {
			config = b.Config.Name
		}
		if n := len(b.Steps); n > 0 {
			step = b.Steps[n-1].Name
		}
		return []any{b.Name, b.Outcome, image, config, step, age((*metav1.Time)(b.Begun), now), took(b), b.Client, b.Reason}
	}}

// took returns the time that a boot took; "": it goes on, or it never began.
func took(b *v1.Boot) string {
	if b.Begun == nil || b.Ended == nil {
		return ""
	}
	return duration.HumanDuration(max(0, b.Ended.Sub(b.Begun.Time)))
}
