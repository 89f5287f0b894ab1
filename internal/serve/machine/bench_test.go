package machine

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"glowplug/internal/controller/events"
	"glowplug/internal/domain/boottoken"
	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/identity"
	"glowplug/internal/logs"
	"glowplug/internal/serve/peer"
	"glowplug/internal/store/boots"
	"glowplug/internal/store/kvstore"
	"glowplug/internal/store/snapshot"
)

var benchBody = bytes.Repeat([]byte("0123456789abcdef"), 320) // 5 KB

// bare is what the server is measured against.
func bare(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = benchType
	w.Header()["Content-Length"] = benchLength
	_, _ = w.Write(benchBody)
}

var benchType, benchLength = []string{ignitionType}, []string{strconv.Itoa(len(benchBody))}

// notes is where requests are noted.
type notes struct {
	*boots.Tracker
	*events.Recorder
}

func (notes) Unknown(decide.Sighting) string { return "" }
func (notes) Known(netip.Addr)               {}

// whole is the server with the real decision over one host and one config.
func whole(b *testing.B, level slog.Level) http.Handler { return wholeWith(b, level, "") }

// benchKey makes the tokens of boots.
var benchKey = boottoken.NewKey([]byte("key"))

// limited are the limits of a host with a window, a number of fetches and the token of its boot.
const limited = `,"provisioning":{"window":"8784h","maxFetches":1000,"token":true}`

// wholeWith is whole with more fields in the spec of the host.
func wholeWith(b *testing.B, level slog.Level, spec string) http.Handler {
	inv := snapshot.New(snapshot.Options{})
	inv.Hosts().Load([]kvstore.Item{{Key: "g10/server1", Revision: 1, Value: []byte(
		`{"metadata":{"name":"server1","namespace":"g10","uid":"u","creationTimestamp":"` +
			time.Now().UTC().Format(time.RFC3339) + `"},` +
			`"spec":{"ip":"127.0.0.1","labels":{"role":"builder"}` + spec + `}}`)}})
	inv.Configs().Load([]kvstore.Item{{Key: "g10/builder", Revision: 2, Value: storedConfig("builder", "ignition",
		`{"matchLabels":{"role":"builder"}}`, benchBody)}})
	inv.Images().Load(nil)
	h := logs.NewHandler(io.Discard, logs.Options{Level: level})
	b.Cleanup(func() { _ = h.Close() })
	recorder := events.New(events.Options{})
	tracker := boots.New(boots.Options{Events: recorder})
	return New(Options{
		Decider: decide.New(decide.Options{Inventory: inv, Progress: tracker, Tokens: benchKey}), Log: h,
		Limiter: logs.NewLimiter(slog.New(h), nil), Journal: notes{tracker, recorder},
		Resolver: peer.NewResolver(peer.ResolverOptions{Neighbors: identity.NeighborsOff}),
	})
}

func BenchmarkServing(b *testing.B) {
	for _, kept := range []bool{true, false} {
		name := "keep-alive/"
		if !kept {
			name = "connection/"
		}
		b.Run(name+"bare", func(b *testing.B) { benchmark(b, http.HandlerFunc(bare), PathIgnition, kept) })
		b.Run(name+"shipped", func(b *testing.B) { benchmark(b, whole(b, slog.LevelInfo), PathIgnition, kept) })
		b.Run(name+"quiet", func(b *testing.B) { benchmark(b, whole(b, slog.LevelWarn), PathIgnition, kept) })
		b.Run(name+"limited", func(b *testing.B) {
			token := boottoken.InQuery("", benchKey.Token("u", time.Now()))
			benchmark(b, wholeWith(b, slog.LevelInfo, limited), PathIgnition+token, kept)
		})
	}
}

// benchmark asks over loopback with a client that costs next to nothing: it
// counts the bytes of the first answer and reads as many of each.
func benchmark(b *testing.B, handler http.Handler, path string, kept bool) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	if _, ours := handler.(*Server); ours {
		listener, server.ConnContext = Coalesce(listener), ConnContext
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	request := []byte("GET " + path +
		" HTTP/1.1\r\nHost: boot\r\nUser-Agent: Ignition/2.26.0\r\nAccept: " +
		"application/vnd.coreos.ignition+json;version=3.6, */*;q=0.1\r\nConnection: close\r\n\r\n")
	size := len(ask(b, listener.Addr().String(), request))
	if kept {
		request = bytes.Replace(request, []byte("Connection: close\r\n"), nil, 1)
		size -= len("Connection: close\r\n")
	}
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		var conn net.Conn
		buf := make([]byte, size)
		for pb.Next() {
			if !kept {
				ask(b, listener.Addr().String(), request)
				continue
			}
			if conn == nil {
				var err error
				if conn, err = net.Dial("tcp", listener.Addr().String()); err != nil {
					b.Error(err)
					return
				}
				defer conn.Close()
			}
			if _, err := conn.Write(request); err != nil {
				b.Error(err)
				return
			}
			if _, err := io.ReadFull(conn, buf); err != nil || !bytes.HasPrefix(buf, []byte("HTTP/1.1 200")) {
				b.Error(err, string(buf[:12]))
				return
			}
		}
	})
}

// ask makes one request on a connection of its own.
func ask(b *testing.B, addr string, request []byte) []byte {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Error(err)
		return nil
	}
	defer conn.Close()
	if _, err := conn.Write(request); err != nil {
		b.Error(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) {
		b.Errorf("%v %.200q", err, answer)
	}
	return answer
}

// storedConfig is a compiled config of namespace g10 as the store has it.
func storedConfig(name, typ, selector string, artifact []byte) []byte {
	return fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":"g10","generation":1},`+
		`"spec":{"type":%q,"format":%[2]q,"config":"{}","selector":%s},`+
		`"compiled":{"generation":1,"hash":"sha256:abc","ignitionVersion":"3.4.0","artifact":%q}}`,
		name, typ, selector, base64.StdEncoding.EncodeToString(artifact))
}

// BenchmarkHandler is the handler without net/http around it.
func BenchmarkHandler(b *testing.B) {
	for _, c := range []struct {
		name  string
		level slog.Level
		query string
		spec  string
	}{
		{"shipped", slog.LevelInfo, "", ""}, {"quiet", slog.LevelWarn, "", ""},
		{"claims", slog.LevelWarn, "?ip=127.0.0.1", ""},
		{"limited", slog.LevelInfo, "?token=" + benchKey.Token("u", time.Now()), limited},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := wholeWith(b, c.level, c.spec)
			req := httptest.NewRequest("GET", PathIgnition+c.query, nil)
			req.RemoteAddr = "127.0.0.1:40000"
			req.Header.Set("User-Agent", "Ignition/2.26.0")
			req.Header.Set("Accept", "application/vnd.coreos.ignition+json;version=3.6, */*;q=0.1")
			w := &discardWriter{header: make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				s.ServeHTTP(w, req)
			}
		})
	}
}
