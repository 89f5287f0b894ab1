// Package unknown keeps the list of machines that asked and are no known hosts, and writes it
// into the store as UnknownMachines. All values come from strangers, so their size, their
// number and the rate of the writes are bounded. A request is recorded in memory alone.
package unknown

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"glowplug/internal/controller"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/netaddr"
	"glowplug/internal/feed"
	"glowplug/internal/store/snapshot"
)

const (
	// settle is the pause before the first write of a machine, changeGap the least time
	// between two writes of it, and countGap that without a new value: then only the count
	// and the time are new.
	settle    = time.Second
	changeGap = 5 * time.Second
	countGap  = time.Minute
	// perSecond bounds the writes, and inStorm those while a storm of boots goes on.
	perSecond = 100
	inStorm   = 5
	// sweepPeriod is the time between two checks whether machines have become hosts. A change
	// of a host is checked at once.
	sweepPeriod = 30 * time.Second
	sweepKey    = "" // no machine has this name

	prefix = "/unknownmachines/"
)

// Values of the label cause.
const (
	causeSource = "source"
	causeFull   = "full"
	causeFailed = "failed"
)

// Options are the parts of a Recorder.
type Options struct {
	// Inventory tells which machines become hosts.
	Inventory *snapshot.Inventory
	// IsHost reports whether a machine with a hardware address, which may be zero, and an IP
	// address is a host.
	IsHost func(mac netaddr.MAC, addr netip.Addr) bool
	// Dropped is told each machine that is not listed any more; it must not block. Nil: nobody is told.
	Dropped func(name string)
	// Logger takes failures; Registerer takes the metrics; Metrics counts the writes. The
	// last two may be nil.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Metrics    *controller.Metrics
}

// Recorder keeps the unknown machines. It observes their bucket, and so has those of other
// servers and of former starts as well. It is safe for concurrent use.
type Recorder struct {
	opts    Options
	changes *feed.Subscription[snapshot.Change]
	queue   *controller.Controller[string] // of names
	dropped *prometheus.CounterVec

	mu sync.Mutex
	machines
	// gone are the stored machines that are to be deleted.
	gone   map[string]bool
	store  Store // nil before Run
	writer *controller.Writer
}

// New returns a Recorder, which writes nothing before Run.
func New(opts Options) *Recorder {
	if opts.Dropped == nil {
		opts.Dropped = func(string) {}
	}
	metrics := promauto.With(opts.Registerer)
	r := &Recorder{
		opts: opts, changes: opts.Inventory.Subscribe(), machines: newMachines(), gone: map[string]bool{},
		dropped: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_unknown_machines_dropped_total",
			Help: "Unknown machines that were dropped from the list: source, their address had too many; full, the list " +
				"had too many; failed, the store refused one.",
		}, []string{"cause"}),
	}
	for _, cause := range []string{causeSource, causeFull, causeFailed} {
		r.dropped.WithLabelValues(cause)
	}
	metrics.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "glowplug_unknown_machines", Help: "Machines that asked and are no known hosts.",
	}, func() float64 { return float64(r.Len()) })
	r.queue = controller.New(controller.Options[string]{
		Name: "unknown", Reconcile: r.reconcile, List: r.list, Metrics: opts.Metrics, Logger: opts.Logger,
	})
	return r
}

// Has reports whether a machine is listed.
func (r *Recorder) Has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[name] != nil
}

// Len returns the number of unknown machines.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byName)
}

// Unknown records a request of a machine that is no known host, and returns the name of its
// UnknownMachine. It does not block.
func (r *Recorder) Unknown(s decide.Sighting) string {
	now, mac := time.Now(), s.Neighbor
	r.mu.Lock()
	defer r.mu.Unlock()
	if mac == (netaddr.MAC{}) && r.mayClaim(s.MAC) {
		mac = s.MAC
	}
	name := decide.MachineName(mac, s.Addr)
	m := r.byName[name]
	if mac == (netaddr.MAC{}) {
		// A later request of a machine, such as Ignition's, does not have its hardware address.
		if same := r.byAddr[s.Addr]; same != nil {
			m, mac = same, same.mac
		}
	} else {
		r.dropAlone(s.Addr) // its hardware address is known now
	}
	isNew := m == nil
	if isNew {
		m = &machine{name: name, mac: mac}
	}
	r.touch(m, s.Addr, s.Neighbor != (netaddr.MAC{}))
	if isNew {
		if out, cause := r.surplus(m); out != nil {
			r.dropped.WithLabelValues(cause).Inc()
			r.drop(out)
		}
	}
	m.unwritten++
	m.changed = see(&m.status, m.name, mac, &s, now) || m.changed
	r.schedule(m, now)
	return m.name
}

// Known records a request of a known host. The machine that is known by the address of the request
// alone is this host: its earlier requests did not say so.
func (r *Recorder) Known(addr netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropAlone(addr)
}

// mayClaim reports whether a client without an entry in the neighbour table may be the machine
// with a hardware address: no host has it, and no machine whose entry shows it.
func (r *Recorder) mayClaim(mac netaddr.MAC) bool {
	if mac == (netaddr.MAC{}) || r.opts.IsHost(mac, netip.Addr{}) {
		return false
	}
	m := r.byName[decide.MachineName(mac, netip.Addr{})]
	return m == nil || !m.verified
}

// drop removes a machine, from the store as well.
func (r *Recorder) drop(m *machine) {
	r.remove(m)
	r.opts.Dropped(m.name)
	if m.stored {
		r.gone[m.name] = true
		r.queue.Enqueue(m.name)
	}
}

// schedule queues the next write of a machine.
func (r *Recorder) schedule(m *machine, now time.Time) {
	due := now.Add(settle)
	if m.stored {
		gap := countGap
		if m.changed {
			gap = changeGap
		}
		if next := m.written.Add(gap); next.After(due) {
			due = next
		}
	}
	if m.due.IsZero() || due.Before(m.due) {
		m.due = due
		r.queue.EnqueueAfter(m.name, due.Sub(now))
	}
}

// changed removes the machine that has become a host.
func (r *Recorder) changed(change snapshot.Change) {
	if change.Reload {
		r.sweep()
	}
	if change.Host == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, mac := range change.Host.MACs {
		if m := r.byName[decide.MachineName(mac, netip.Addr{})]; m != nil {
			r.drop(m)
		}
	}
	for _, addr := range change.Host.IPs {
		r.dropAlone(addr)
		if m := r.byAddr[addr]; m != nil && !change.Host.HasMACs() {
			r.drop(m)
		}
	}
}

// dropAlone removes the machine that is known by an address alone.
func (r *Recorder) dropAlone(addr netip.Addr) {
	if m := r.alone[addr]; m != nil {
		r.drop(m)
	}
}

// sweep removes the machines that have become hosts.
func (r *Recorder) sweep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.byName {
		if r.opts.IsHost(m.mac, m.addr) {
			r.drop(m)
		}
	}
}
