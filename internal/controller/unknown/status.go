package unknown

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/netaddr"
)

const (
	// maxValues bounds each list of a status.
	maxValues = 8
	// maxText bounds each value, in bytes.
	maxText = 128
)

// see adds a request to a status, and reports whether it has a new value. The first values of
// a list of claims stay: a machine that always claims another one causes no writes.
func see(s *v1.UnknownMachineStatus, name string, mac netaddr.MAC, seen *decide.Sighting, now time.Time) bool {
	before := s.DeepCopy()
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	if s.FirstSeen.IsZero() {
		s.FirstSeen = at
	}
	s.LastSeen = at
	s.Adopt = "glowplug adopt um/" + name + " -n NAMESPACE --name HOST"
	if mac != (netaddr.MAC{}) {
		s.MAC = mac.String()
	}
	if seen.Neighbor != (netaddr.MAC{}) {
		s.NeighborMAC = seen.Neighbor.String()
	}
	if s.NeighborMAC == "" {
		s.Adopt += " --with-address" // the machine is behind a router, and recognised by its address alone
	}
	if seen.MAC != (netaddr.MAC{}) && seen.MAC != mac {
		s.ClaimedMACs = appendNew(s.ClaimedMACs, seen.MAC.String())
	}
	s.ClaimedMACs = appendNew(s.ClaimedMACs, seen.OtherMACs...)
	if seen.Addr.IsValid() {
		s.Addresses = appendNew([]string{seen.Addr.String()}, s.Addresses...)
	}
	s.Requests = appendNew(s.Requests, seen.Request)
	s.Hostnames = appendNew(s.Hostnames, printable(seen.Hostname))
	for _, text := range []struct {
		field *string
		value string
	}{
		{&s.SystemUUID, seen.UUID}, {&s.Serial, seen.Serial}, {&s.Manufacturer, seen.Manufacturer},
		{&s.Product, seen.Product}, {&s.Architecture, seen.Arch},
	} {
		if value := printable(text.value); value != "" {
			*text.field = value
		}
	}
	before.LastSeen, before.FirstSeen = s.LastSeen, s.FirstSeen
	return !equality.Semantic.DeepEqual(before, s)
}

// merge adds what another status of the same machine has, except for the count.
func merge(into, other *v1.UnknownMachineStatus) {
	if into.FirstSeen.IsZero() || !other.FirstSeen.IsZero() && other.FirstSeen.Before(&into.FirstSeen) {
		into.FirstSeen = other.FirstSeen
	}
	newer := into.LastSeen.Before(&other.LastSeen)
	if newer {
		into.LastSeen = other.LastSeen
	}
	for _, text := range []struct {
		field *string
		value string
	}{
		{&into.Adopt, other.Adopt}, {&into.MAC, other.MAC}, {&into.NeighborMAC, other.NeighborMAC},
		{&into.SystemUUID, other.SystemUUID}, {&into.Serial, other.Serial}, {&into.Manufacturer, other.Manufacturer},
		{&into.Product, other.Product}, {&into.Architecture, other.Architecture},
	} {
		if text.value != "" && (newer || *text.field == "") {
			*text.field = text.value
		}
	}
	addresses := append(slices.Clone(into.Addresses), other.Addresses...)
	if newer {
		addresses = append(slices.Clone(other.Addresses), into.Addresses...)
	}
	into.Addresses = appendNew(nil, addresses...)
	into.Requests = appendNew(into.Requests, other.Requests...)
	into.ClaimedMACs = appendNew(into.ClaimedMACs, other.ClaimedMACs...)
	into.Hostnames = appendNew(into.Hostnames, other.Hostnames...)
}

// appendNew adds the values that a list does not have, as long as it has room.
func appendNew(list []string, values ...string) []string {
	for _, value := range values {
		if value != "" && len(list) < maxValues && !slices.Contains(list, value) {
			list = append(list, value)
		}
	}
	return list
}

// printable returns the printable characters of a text, at most maxText bytes; "" for a
// variable that the boot loader did not expand.
func printable(s string) string {
	if strings.Contains(s, "${") {
		return ""
	}
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s[:min(len(s), 4*maxText)])
	for len(s) > maxText {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return strings.TrimSpace(s)
}
