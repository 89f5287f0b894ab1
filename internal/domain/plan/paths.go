package plan

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"glowplug/internal/domain/ignition"
)

// paths plans files, directories and links, as createFilesystemsEntries of Ignition's
// internal/exec/stages/files/filesystemEntries.go writes them: those nearer to the root first,
// and hard links last. A path on a file system of the config belongs below that; the others, which
// are returned, are on the root file system of the image, whose contents are unknown.
func paths(config *ignition.Config, mounted mounts, failed bool) []*step {
	entries := slices.Concat(directories(config), files(config), links(config))
	slices.SortStableFunc(entries, func(a, b entry) int { return a.order() - b.order() })
	hiding, above := mountUnits(config.Systemd.Units), mounted.above()
	var onRoot []*step
	for _, e := range entries {
		name := path.Clean(e.node.Path)
		if len(name) > maxPath {
			e.step.Action, e.step.Rule = Fail, "the path is longer than 4096 bytes"
			failed, onRoot = true, append(onRoot, e.step)
			continue
		}
		on := mounted.covering(name)
		e.settle(on)
		e.step.NotReached = failed
		if rule := cmp.Or(e.fault, e.crosses(on, mounted)); rule != "" {
			e.step.Action, e.step.Rule, e.step.Loses = Fail, rule, nil
			failed = true
		}
		if m := above[name]; m != nil && value(e.node.Overwrite) {
			e.removes(m)
			failed = true
		}
		if where := hiddenBy(hiding, name); where != "" && (on == nil || !covers(where, on.path)) {
			e.step.Notes = append(e.step.Notes, "a mount unit of the config mounts something at "+where+
				" later, which hides it: give the file system the path "+where)
		}
		if on != nil {
			on.step.below = append(on.step.below, e.step)
		} else {
			onRoot = append(onRoot, e.step)
		}
	}
	return append(onRoot, labels(config, failed)...)
}

// labels plans the labels of SELinux, as the operator notes tell it.
func labels(config *ignition.Config, failed bool) []*step {
	if len(config.Storage.Files)+len(config.Storage.Directories)+len(config.Storage.Links) == 0 {
		return nil
	}
	return []*step{{Step: Step{
		Action: Change, Kind: "SELinux labels", Name: "of what Ignition writes", Field: "storage", NotReached: failed,
		Rule: "where the image has SELinux, Ignition runs setfiles, which the image has to have, with a kernel of at least 5.5",
	}}}
}

// entry is a file, a directory or a link.
type entry struct {
	node ignition.Node
	hard bool
	// target is that of a link.
	target string
	// fault says why Ignition cannot write the entry; "": nothing is known.
	fault string
	step  *step
}

// crosses says why a hard link cannot be made: its target is on another file system than its path;
// "": it is not.
func (e entry) crosses(on *mount, mounted mounts) string {
	if !e.hard || len(e.target) > maxPath {
		return ""
	}
	other := mounted.covering(path.Clean("/" + e.target))
	if other == on {
		return ""
	}
	return "a hard link cannot reach into another file system: the link is on " + on.String() + ", and its target on " +
		other.String()
}

// String is how rules call a file system that is mounted; nil is that of the image.
func (m *mount) String() string {
	if m == nil {
		return "the root file system"
	}
	return "that at " + m.path
}

// order is the order in which entries are written.
func (e entry) order() int {
	if e.hard {
		return 1 << 20
	}
	return depth(path.Clean(e.node.Path))
}

// settle sets the action where the config overwrites, or where the file system is new; on is the
// file system of the config that the path is on, or nil.
func (e entry) settle(on *mount) {
	s := e.step
	switch {
	case on != nil && on.fresh:
		s.Action, s.Rule = Create, "the file system is new, and there is nothing at the path"
	case value(e.node.Overwrite):
		s.Action, s.Field = Overwrite, s.Field+".overwrite"
		s.Rule = "overwrite is true: Ignition removes what is at the path, also a directory with all that is in it"
		if on != nil && on.step.Action == Reuse {
			s.Loses = []string{"what is at " + e.node.Path + " on the file system that is reused"}
		}
	}
}

// removes sets the failure of an entry with overwrite whose path is that of a mount, or above it:
// Ignition removes all that is in the file system, and cannot remove the place of the mount.
func (e entry) removes(m *mount) {
	s := e.step
	s.Action, s.Field = Fail, strings.TrimSuffix(s.Field, ".overwrite")+".overwrite"
	s.Rule = "overwrite is true, and a file system is mounted at " + m.path + ": Ignition removes what is in it, and fails on " +
		"the place of the mount"
	if m.step.Action == Reuse {
		s.Loses = []string{"what is on the file system that is reused at " + m.path}
	}
}

// maxPath is the longest path that Linux takes, in bytes.
const maxPath = 4096

func directories(config *ignition.Config) []entry {
	var entries []entry
	for i, d := range config.Storage.Directories {
		entries = append(entries, entry{node: d.Node, step: &step{Step: Step{
			Action: Create, Kind: "directory", Name: d.Path, Detail: describeNode(d.Mode, d.Node),
			Field: fmt.Sprintf("storage.directories.%d", i), Rule: "a directory that exists gets owner and mode",
		}}})
	}
	return entries
}

func files(config *ignition.Config) []entry {
	var entries []entry
	var contents ignition.Contents
	for i, f := range config.Storage.Files {
		s := &step{Step: Step{Kind: "file", Name: f.Path, Field: fmt.Sprintf("storage.files.%d", i)}}
		s.Detail = strings.Join(slices.DeleteFunc([]string{
			origin(f.Contents), appended(len(f.Append)), describeNode(f.Mode, f.Node),
		}, func(s string) bool { return s == "" }), ", ")
		switch {
		case f.Contents.Source != nil:
			s.Action, s.Rule = Create, "overwrite is not set: Ignition fails where there is something at the path"
		case len(f.Append) > 0:
			s.Action, s.Rule = Append, "there are no contents: Ignition appends to a file that exists, or makes it"
		default:
			s.Action, s.Rule = Change, "there are no contents: a file that exists gets owner and mode, else an empty one is made"
		}
		fault := contents.Fault(f.Contents)
		for _, r := range f.Append {
			fault = cmp.Or(fault, contents.Fault(r))
		}
		entries = append(entries, entry{node: f.Node, fault: fault, step: s})
	}
	return entries
}

func links(config *ignition.Config) []entry {
	var entries []entry
	for i, l := range config.Storage.Links {
		detail, hard := "to "+value(l.Target), value(l.Hard)
		if hard {
			detail = "hard, " + detail
		}
		entries = append(entries, entry{node: l.Node, hard: hard, target: value(l.Target), step: &step{Step: Step{
			Action: Create, Kind: "link", Name: l.Path, Detail: detail, Field: fmt.Sprintf("storage.links.%d", i),
			Rule: "overwrite is not set: Ignition fails where there is something else at the path",
		}}})
	}
	return entries
}

// describeNode is the mode and the owner of a path; "": those that Ignition gives it.
func describeNode(mode *int, node ignition.Node) string {
	var parts []string
	if mode != nil {
		parts = append(parts, fmt.Sprintf("mode %04o", *mode))
	}
	user, group := value(node.User.Name), value(node.Group.Name)
	if node.User.ID != nil {
		user = fmt.Sprint(*node.User.ID)
	}
	if node.Group.ID != nil {
		group = fmt.Sprint(*node.Group.ID)
	}
	if user != "" {
		parts = append(parts, "user "+user)
	}
	if group != "" {
		parts = append(parts, "group "+group)
	}
	return strings.Join(parts, ", ")
}

func appended(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 part is appended"
	}
	return fmt.Sprintf("%d parts are appended", n)
}

// covering returns the mounted file system of the config that a path is on; nil: the root.
func (mounted mounts) covering(name string) *mount {
	for {
		if m := mounted[name]; m != nil {
			return m
		}
		if name == "/" || name == "." {
			return nil
		}
		name = path.Dir(name)
	}
}

// above has a mount for each place of a mount and each folder above one.
func (mounted mounts) above() map[string]*mount {
	folders := map[string]*mount{}
	for _, place := range slices.Sorted(maps.Keys(mounted)) {
		m := mounted[place]
		if len(m.path) > maxPath {
			continue
		}
		for folder := m.path; folder != "/" && folder != "."; folder = path.Dir(folder) {
			if known := folders[folder]; known == nil || known.step.Action != Reuse {
				folders[folder] = m
			}
		}
	}
	return folders
}

// covers reports whether a path is a folder or below it.
func covers(folder, name string) bool {
	return name == folder || strings.HasPrefix(name, strings.TrimSuffix(folder, "/")+"/")
}

// mountUnits are the places at which the mount units of the config mount something.
func mountUnits(units []ignition.Unit) map[string]bool {
	places := map[string]bool{}
	for _, unit := range units {
		if !strings.HasSuffix(unit.Name, ".mount") {
			continue
		}
		for line := range strings.Lines(value(unit.Contents)) {
			key, where, _ := strings.Cut(strings.TrimSpace(line), "=")
			if where = strings.TrimSpace(where); strings.TrimSpace(key) == "Where" && path.IsAbs(where) {
				places[path.Clean(where)] = true
			}
		}
	}
	return places
}

// hiddenBy returns the mount unit's place that a path is below; "": none.
func hiddenBy(places map[string]bool, name string) string {
	for where := path.Dir(name); where != "/" && where != "."; where = path.Dir(where) {
		if places[where] {
			return where
		}
	}
	return ""
}
