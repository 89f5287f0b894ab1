package tftp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"glowplug/internal/domain/netaddr"
	"glowplug/internal/limit"
	"glowplug/internal/logs"
)

const (
	// maxTransfers and maxPerSource bound the transfers at the same time, in all and of one address.
	maxTransfers = 1024
	maxPerSource = 16
)

// File is a file that is served.
type File interface {
	io.ReaderAt
	io.Closer
}

// Options are the parts of a Server.
type Options struct {
	// Open opens a file for a client, which reads it from its beginning to its end; its error is sent to the client as
	// "not found".
	Open func(ctx context.Context, name string, client netip.Addr) (file File, size int64, err error)
	// Dial opens the socket of a transfer.
	Dial func(ctx context.Context, client netip.AddrPort) (net.Conn, error)
	// Logger takes a line for each transfer; nil discards them. Metrics counts them; nil does not.
	Logger  *slog.Logger
	Metrics *Metrics
	// Limiter bounds the lines about transfers; nil: each one has its line.
	Limiter *logs.Limiter
}

// Metrics count transfers.
type Metrics struct {
	transfers *prometheus.CounterVec
	bytes     prometheus.Counter
}

// Outcomes of a transfer.
const (
	outcomeSent    = "sent"
	outcomeAborted = "aborted"
	outcomeFailed  = "failed"
	outcomeMissing = "missing"
	outcomeLimited = "limited"
)

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		transfers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "glowplug_tftp_transfers_total",
			Help: "Requests over TFTP, by outcome: sent, aborted (by the client, as one that asks for the size alone), failed, " +
				"missing (no such file), limited (too many at the same time).",
		}, []string{"outcome"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "glowplug_tftp_sent_bytes_total", Help: "Bytes of the files that were sent over TFTP completely.",
		}),
	}
	for _, outcome := range []string{outcomeSent, outcomeAborted, outcomeFailed, outcomeMissing, outcomeLimited} {
		m.transfers.WithLabelValues(outcome)
	}
	reg.MustRegister(m.transfers, m.bytes)
	return m
}

// count counts a transfer.
func (m *Metrics) count(outcome string, size int64) {
	if m == nil {
		return
	}
	m.transfers.WithLabelValues(outcome).Inc()
	if outcome == outcomeSent {
		m.bytes.Add(float64(size))
	}
}

// Server answers the requests of one socket.
type Server struct {
	opts Options
	// warnings bounds the lines about clients that were refused, and refused the answers to them.
	warnings, refused *rate.Limiter

	mu      sync.Mutex
	sources limit.Counts[netip.Addr]
	// slots are the transfers that are under way.
	slots map[netip.AddrPort]*slot
}

// slot is the place of a transfer among those that may be under way.
type slot struct {
	client netip.AddrPort
	began  time.Time
	cancel context.CancelFunc
	// answered is true once the client has acknowledged a packet: its address is no other's.
	answered atomic.Bool
}

// New makes a Server.
func New(opts Options) *Server {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	return &Server{
		opts: opts, warnings: limit.PerSecond(1, 5).Bucket(), refused: limit.PerSecond(100, 100).Bucket(),
		sources: limit.Counts[netip.Addr]{}, slots: map[netip.AddrPort]*slot{},
	}
}

// Serve answers until ctx ends or the socket fails. It closes the socket, and waits for the transfers to end.
func (s *Server) Serve(ctx context.Context, conn *net.UDPConn) error {
	ctx, cancel := context.WithCancel(ctx)
	var transfers sync.WaitGroup
	defer transfers.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	packet := make([]byte, 1500)
	for {
		n, client, err := conn.ReadFromUDPAddrPort(packet)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("serving TFTP: %w", err)
		}
		request, err := parse(packet[:n])
		if err != nil {
			// Whatever else comes gets no answer: two servers would answer each other for ever.
			if code, isRefused := refusals[err]; isRefused && s.refused.Allow() {
				_, _ = conn.WriteToUDPAddrPort(failure(code, err.Error()), client)
			}
			continue
		}
		one, cancel := context.WithCancel(ctx)
		slot, err := s.begin(client, cancel)
		if err != nil {
			cancel()
		}
		switch {
		case errors.Is(err, errAsked):
		case err != nil:
			s.opts.Metrics.count(outcomeLimited, 0)
			if s.warnings.Allow() {
				s.opts.Logger.Warn("a TFTP request was refused", "client", client.Addr(), "file", request.name, "error", err)
			}
			if s.refused.Allow() {
				_, _ = conn.WriteToUDPAddrPort(failure(codeUndefined, err.Error()), client)
			}
		default:
			transfers.Go(func() {
				defer s.end(slot)
				s.answer(one, slot, request)
			})
		}
	}
}

// refusals are the answers to requests that are none to read a file.
var refusals = map[error]uint16{errWrite: codeAccess, errMode: codeIllegal}

var (
	errAsked = errors.New("it is being answered")
	errFull  = errors.New("too many transfers at the same time; try again")
)

// begin makes room for a transfer. A client that repeats a request gets no second transfer; one that has begun to read
// and asks anew was reset. If there is no room, the oldest transfer goes whose client has not answered for firstWait,
// since anybody can send a request in the name of another address.
func (s *Server) begin(client netip.AddrPort, cancel context.CancelFunc) (*slot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if former := s.slots[client]; former != nil {
		if !former.answered.Load() {
			return nil, errAsked
		}
		s.removeLocked(former)
	}
	if s.sources[client.Addr()] >= maxPerSource && !s.evictLocked(client.Addr()) {
		return nil, errFull
	}
	if len(s.slots) >= maxTransfers && !s.evictLocked(netip.Addr{}) {
		return nil, errFull
	}
	next := &slot{client: client, began: time.Now(), cancel: cancel}
	s.slots[client] = next
	s.sources.Add(client.Addr(), 1)
	return next, nil
}

// evictLocked ends the oldest transfer, of a source or with the zero Addr of all, whose client does not answer.
func (s *Server) evictLocked(source netip.Addr) bool {
	var oldest *slot
	for _, other := range s.slots {
		isOf := !source.IsValid() || other.client.Addr() == source
		isIdle := time.Since(other.began) > firstWait && !other.answered.Load()
		if isOf && isIdle && (oldest == nil || other.began.Before(oldest.began)) {
			oldest = other
		}
	}
	if oldest == nil {
		return false
	}
	s.removeLocked(oldest)
	return true
}

func (s *Server) end(ended *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(ended)
}

// removeLocked ends a transfer, unless it has been ended.
func (s *Server) removeLocked(ended *slot) {
	ended.cancel()
	if s.slots[ended.client] == ended {
		delete(s.slots, ended.client)
		s.sources.Add(ended.client.Addr(), -1)
	}
}

// answer serves one request.
func (s *Server) answer(ctx context.Context, of *slot, r *request) {
	client := of.client
	log := s.opts.Logger.With("client", client.Addr(), "file", r.name)
	origin := logs.Origin{Kind: logs.Served, Source: netaddr.SourceOf(client.Addr(), netaddr.MAC{})}
	conn, err := s.opts.Dial(ctx, client)
	if err != nil {
		s.opts.Metrics.count(outcomeFailed, 0)
		log.Warn("no socket for a TFTP transfer", "error", err)
		return
	}
	defer conn.Close()
	file, size, err := s.opts.Open(ctx, r.name, client.Addr())
	if err != nil {
		s.opts.Metrics.count(outcomeMissing, 0)
		// Loaders ask for files that need not be there, such as the revocations of shim.
		log.Debug("no such file over TFTP", "error", err)
		_, _ = conn.Write(failure(codeNotFound, "no such file"))
		return
	}
	defer file.Close()
	began := time.Now()
	err = (&transfer{
		conn: conn, request: r, file: file, size: size, answered: func() { of.answered.Store(true) },
	}).run(ctx)
	switch isLogged := s.opts.Limiter.Allow(began, &origin); {
	case err == nil:
		s.opts.Metrics.count(outcomeSent, size)
		if !isLogged {
			return
		}
		log.Info("sent over TFTP", "bytes", size, "took", time.Since(began).Round(time.Millisecond))
	case errors.Is(err, errAborted):
		s.opts.Metrics.count(outcomeAborted, 0)
		log.Debug("a TFTP transfer was ended by the client")
	default:
		s.opts.Metrics.count(outcomeFailed, 0)
		if !isLogged {
			return
		}
		log.Warn("a TFTP transfer failed", "error", err, "took", time.Since(began).Round(time.Millisecond))
	}
}
