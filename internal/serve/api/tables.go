package api

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/report"
)

// column is one column of a table; a wide one shows with -o wide.
type column struct {
	name, kind, description string
	wide                    bool
}

// table makes the tables that kubectl get prints of one kind.
type table[T runtime.Object] struct {
	columns []column
	row     func(obj T, now time.Time) []any
}

// ConvertToTable makes a table of an object or a list.
func (t *table[T]) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{}
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
		out.ColumnDefinitions = definitions(t.columns)
	}
	return out, nil
}

func definitions(columns []column) []metav1.TableColumnDefinition {
	out := make([]metav1.TableColumnDefinition, len(columns))
	for i, c := range columns {
		out[i] = metav1.TableColumnDefinition{Name: c.name, Type: c.kind, Description: c.description}
		if c.kind == "" {
			out[i].Type = "string"
		}
		if c.name == "Name" {
			out[i].Format = "name"
		}
		if c.wide {
			out[i].Priority = 1
		}
	}
	return out
}

var configTable = &table[*v1.IgnitionConfig]{
	columns: []column{
		{name: "Name", description: "The config's name."},
		{name: "Type", description: "ignition or kickstart."},
		{name: "Format", description: "The language of the source."},
		{name: "Phase", description: "Pending, Ready, or Error: the newest source does not compile."},
		{name: "Size", description: "The size of what machines are served."},
		{name: "Hash", description: "The beginning of the hash of what machines are served."},
		{name: "Age", description: "Time since the config was created."},
		{name: "Hosts", description: "Of a template: the hosts that it is rendered for, of those that it is for.",
			wide: true},
		{name: "Match", description: "Which machines it is for.", wide: true},
		{name: "Message", description: "Why the newest source does not compile.", wide: true},
	},
	row: func(c *v1.IgnitionConfig, now time.Time) []any {
		return []any{c.Name, c.Spec.Type, c.Spec.Format, c.Status.Phase, report.Size(c.Status.CompiledSize),
			compile.ShortHash(c.Status.ConfigHash), age(c.CreationTimestamp, now), renderedHosts(&c.Status),
			matchSummary(&c.Spec.Selector), c.Status.ErrorMessage}
	},
}

var hostTable = &table[*v1.BareMetalHost]{
	columns: []column{
		{name: "Name", description: "The host's name."},
		{name: "MAC", description: "The hardware address that it boots from."},
		{name: "IP", description: "Its address."},
		{name: "Image", description: "The image that it boots; empty: its disk."},
		{name: "State", description: "What it was last seen doing."},
		{name: "Last-Boot", description: "Time since it last began to boot."},
		{name: "Age", description: "Time since the host was created."},
		{name: "Config", description: "The config that it was last served.", wide: true},
		{name: "Hostname", description: "Its name on the network.", wide: true},
	},
	row: func(h *v1.BareMetalHost, now time.Time) []any {
		lastBoot := ""
		if h.Status.LastBoot != nil {
			lastBoot = age(*h.Status.LastBoot, now)
		}
		return []any{h.Name, h.Spec.BootMACAddress, h.Spec.IP, h.Spec.Image, h.Status.State, lastBoot,
			age(h.CreationTimestamp, now), h.Status.LastConfig, h.EffectiveHostname()}
	},
}

var cdromTable = &table[*v1.ISCSICdrom]{
	columns: []column{
		{name: "Name", description: "The image's name."},
		{name: "Phase", description: "Pending, Uploading, Ready or Error."},
		{name: "Source", description: "Where the image comes from."},
		{name: "Distro", description: "What the image was recognised as."},
		{name: "Size", description: "The image's size."},
		{name: "Age", description: "Time since the image was created."},
		{name: "Release", description: "The release of the stream that is served.", wide: true},
		{name: "Target", description: "The iSCSI name that it is served under.", wide: true},
		{name: "Config", description: "The config of hosts that boot it and match nothing more specific.", wide: true},
		{name: "Message", description: "What is wrong with the image.", wide: true},
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
			age(c.CreationTimestamp, now), c.Status.ServedRelease, target, c.Spec.IgnitionConfig, c.Status.ErrorMessage}
	},
}

var configMapTable = &table[*v1.ConfigMap]{
	columns: []column{
		{name: "Name", description: "The ConfigMap's name."},
		{name: "Data", kind: "integer", description: "The number of its keys."},
		{name: "Age", description: "Time since the ConfigMap was created."},
	},
	row: func(cm *v1.ConfigMap, now time.Time) []any {
		return []any{cm.Name, int64(len(cm.Data) + len(cm.BinaryData)), age(cm.CreationTimestamp, now)}
	},
}

var namespaceTable = &table[*v1.Namespace]{
	columns: []column{
		{name: "Name", description: "The namespace's name."},
		{name: "Status", description: "Active."},
		{name: "Age", description: "Time since the namespace was created."},
	},
	row: func(n *v1.Namespace, now time.Time) []any {
		return []any{n.Name, n.Status.Phase, age(n.CreationTimestamp, now)}
	},
}

var eventTable = &table[*v1.Event]{
	columns: []column{
		{name: "Last Seen", description: "Time since it was last seen."},
		{name: "Type", description: "Normal or Warning."},
		{name: "Reason", description: "What happened, in a word."},
		{name: "Object", description: "What it is about."},
		{name: "Subobject", description: "The part of it.", wide: true},
		{name: "Source", description: "What reports it.", wide: true},
		{name: "Message", description: "What happened, in a sentence."},
		{name: "First Seen", description: "Time since it was first seen.", wide: true},
		{name: "Count", kind: "integer", description: "How often it was seen.", wide: true},
		{name: "Name", description: "The event's name.", wide: true},
	},
	row: func(e *v1.Event, now time.Time) []any {
		first, last := e.FirstTimestamp, e.LastTimestamp
		if first.IsZero() {
			first = metav1.Time(e.EventTime)
		}
		if last.IsZero() {
			last = first
		}
		component := e.Source.Component
		if component == "" {
			component = e.ReportingController
		}
		if host := e.Source.Host; host != "" {
			component += ", " + host
		}
		object := strings.ToLower(e.InvolvedObject.Kind)
		if e.InvolvedObject.Name != "" {
			object += "/" + e.InvolvedObject.Name
		}
		return []any{age(last, now), e.Type, e.Reason, object, e.InvolvedObject.FieldPath, component,
			strings.TrimSpace(e.Message), age(first, now), int64(max(e.Count, 1)), e.Name}
	},
}

func age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(max(0, now.Sub(t.Time)))
}

// renderedHosts is ready/total of a template, "" of other configs.
func renderedHosts(s *v1.IgnitionConfigStatus) string {
	if s.Hosts == nil {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Hosts.Ready, s.Hosts.Total)
}

// matchSummary says in a few words which machines a selector is for.
func matchSummary(s *v1.IgnitionConfigSelector) string {
	var parts []string
	count := func(values []string, many string) {
		switch len(values) {
		case 0:
		case 1:
			parts = append(parts, values[0])
		default:
			parts = append(parts, fmt.Sprintf("%d %s", len(values), many))
		}
	}
	count(s.MatchMACs, "MACs")
	count(s.MatchIPs, "IPs")
	count(s.MatchHostnames, "hostnames")
	if len(s.MatchLabels) > 0 {
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
			labels = append(labels, key+"="+s.MatchLabels[key])
		}
		parts = append(parts, strings.Join(labels, ","))
	}
	if s.Default {
		parts = append(parts, "default")
	}
	if len(parts) == 0 {
		return "<none>"
	}
	return strings.Join(parts, " or ")
}
