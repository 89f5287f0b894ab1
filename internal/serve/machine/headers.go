package machine

import (
	"hash/maphash"
	"strconv"
	"strings"
	"sync/atomic"
	"unique"

	"glowplug/internal/domain/match"
	"glowplug/internal/store/snapshot"
)

// cachedHeaders is the number of configs, and of renderings of templates, whose header
// values are kept: a power of two.
const cachedHeaders = 65536

// slotSeed tells the many renderings of one revision of a template apart.
var slotSeed = maphash.MakeSeed()

// headerCache keeps header values for each revision of a config, so that a
// request makes none. What it forgets is made anew.
type headerCache struct {
	slots [cachedHeaders]atomic.Pointer[headerValues]
}

// headerValues are the values for one revision of a config. They hold none of
// its bytes, so that an old revision is not kept in memory: the ETag, which was made
// for it, stands in a place of its own.
type headerValues struct {
	ref      snapshot.Ref
	revision uint64
	size     int

	config, etag, length []string
	values               [3]string // what those are slices of
}

func (c *headerCache) of(config *snapshot.Config) *headerValues {
	slot := &c.slots[(config.Revision+maphash.String(slotSeed, config.ETag))%cachedHeaders]
	v := slot.Load()
	if v == nil || v.revision != config.Revision || v.size != len(config.Artifact) || v.ref != config.Ref || v.etag[0] != config.ETag {
		v = &headerValues{
			ref:      snapshot.Ref{Namespace: shared(config.Namespace), Name: shared(config.Name)},
			revision: config.Revision,
			size:     len(config.Artifact),
			values:   [3]string{shared(headerSafe(config.Ref.String())), config.ETag, shared(strconv.Itoa(len(config.Artifact)))},
		}
		v.config, v.etag, v.length = v.values[0:1:1], v.values[1:2:2], v.values[2:3:3]
		slot.Store(v)
	}
	return v
}

// shared gives a string that all who have the same share: what ten thousand
// renderings of one template say alike is in the processor's cache for all of them.
func shared(s string) string { return unique.Make(s).Value() }

// headerSafe keeps a name from ending a header line. The API refuses such names;
// a store may have been written by others.
func headerSafe(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// tierValues are the values of X-Glowplug-Match.
var tierValues = func() (values [match.Default + 1][]string) {
	for tier := range values {
		values[tier] = []string{match.Tier(tier).String()}
	}
	return values
}()

func tierValue(t match.Tier) []string { return tierValues[t] }

// accept joins the lines of an Accept header; most clients send one.
func accept(lines []string) string {
	if len(lines) == 1 {
		return lines[0]
	}
	return strings.Join(lines, ", ")
}
