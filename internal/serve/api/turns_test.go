package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"glowplug/internal/budget"
	"glowplug/internal/pipetest"
)

// asUser is a request of a user.
func asUser(name, method string) *http.Request {
	r := httptest.NewRequest(method, "/api/v1/baremetalhosts", nil)
	ctx := request.WithRequestInfo(r.Context(), &request.RequestInfo{IsResourceRequest: true, Verb: "list"})
	return r.WithContext(request.WithUser(ctx, &user.DefaultInfo{Name: name}))
}

// TestTurns: however many requests a client sends, those of others are executed at once.
func TestTurns(t *testing.T) {
	isWatch := func(r *http.Request, _ *request.RequestInfo) bool { return r.URL.RawQuery == "watch" }
	synctest.Test(t, func(t *testing.T) {
		var executed []string
		h := withTurns(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			executed = append(executed, r.Method+" "+clientOf(r.Context()))
			time.Sleep(time.Minute)
		}), budget.New(4, 5*time.Second), budget.New(4, 5*time.Second), isWatch)
		send := func(r *http.Request) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			go h.ServeHTTP(w, r)
			synctest.Wait()
			return w
		}
		var greedy []*httptest.ResponseRecorder
		for range 10 {
			greedy = append(greedy, send(asUser("greedy", http.MethodGet)))
		}
		for i := range 10 {
			send(asUser(fmt.Sprintf("system:serviceaccount:rack-a:robot-%d", i), http.MethodPatch))
		}
		want := slices.Concat(slices.Repeat([]string{"GET greedy"}, 2),
			slices.Repeat([]string{"PATCH system:serviceaccounts:rack-a"}, 2))
		if !slices.Equal(executed, want) {
			t.Errorf("executed: %v, want %v", executed, want)
		}
		for _, method := range []string{http.MethodGet, http.MethodPatch} {
			before := len(executed)
			send(asUser("other", method))
			if len(executed) == before {
				t.Errorf("%s of another client waits", method)
			}
		}
		before := len(executed)
		watch := asUser("greedy", http.MethodGet)
		watch.URL.RawQuery = "watch"
		send(watch)
		own := asUser("greedy", http.MethodGet)
		send(own.WithContext(context.WithValue(own.Context(), internalKey{}, true)))
		if len(executed) != before+2 {
			t.Error("a watch, or a request of the server itself, waits")
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		last := greedy[9].Result()
		body := greedy[9].Body.String()
		if last.StatusCode != http.StatusTooManyRequests || last.Header.Get("Retry-After") != "1" ||
			!strings.Contains(body, "too many requests are under way, of greedy or of all clients: come again") {
			t.Errorf("a request without a turn: %d %v %s", last.StatusCode, last.Header, body)
		}
		time.Sleep(time.Hour) // until all have ended
	})
}

// unread is the connection of a client that does not read.
type unread struct{ http.ResponseWriter }

func (u unread) Write(p []byte) (int, error) {
	time.Sleep(time.Hour)
	return len(p), nil
}

// TestTurnsAreNotHeldByClientsThatDoNotRead: the turns of a client that does not read its answers are free again.
func TestTurnsAreNotHeldByClientsThatDoNotRead(t *testing.T) {
	isWatch := func(*http.Request, *request.RequestInfo) bool { return false }
	synctest.Test(t, func(t *testing.T) {
		reads, executed := budget.New(4, 5*time.Second), atomic.Int32{}
		h := withTurns(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			executed.Add(1)
			_, _ = w.Write([]byte("an answer"))
		}), reads, reads, isWatch)
		for range 8 {
			go h.ServeHTTP(unread{httptest.NewRecorder()}, asUser("unread", http.MethodGet))
		}
		synctest.Wait()
		if n := executed.Load(); n != 2 {
			t.Fatalf("%d requests are executed", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n, used := executed.Load(), reads.Stats().Used; n != 8 || used != 0 {
			t.Errorf("%d requests were executed, %d turns are taken", n, used)
		}
		time.Sleep(24 * time.Hour)
	})
}

// TestStalledAnswersAreBrokenOff: over HTTP/2, an answer of which the client reads nothing for a minute is broken
// off, and the other answers of its connection go on.
func TestStalledAnswersAreBrokenOff(t *testing.T) {
	isWatch := func(*http.Request, *request.RequestInfo) bool { return false }
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var stalled time.Duration
		var failure error
		h := withTurns(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			size := 1 << 10
			if r.URL.Path == "/large" {
				size = 64 << 20 // more than a client buffers of an answer
			}
			if _, err := w.Write(make([]byte, size)); size > 1<<10 {
				stalled, failure = time.Since(began), err
			}
		}), budget.New(4, time.Second), budget.New(4, time.Second), isWatch)

		protocols := &http.Protocols{}
		protocols.SetUnencryptedHTTP2(true)
		listener := pipetest.Listen()
		asSlow := func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r.WithContext(asUser("slow", r.Method).Context()))
		}
		server := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(asSlow)}
		go func() { _ = server.Serve(listener) }()
		client := &http.Client{Transport: &http.Transport{Protocols: protocols, DialContext: listener.Dial}}

		large, err := client.Get("http://api/large")
		if err != nil {
			t.Fatal(err)
		}
		defer large.Body.Close()
		for time.Since(began) < 2*maxStall {
			small, err := client.Get("http://api/small")
			if err != nil {
				t.Fatalf("after %v: %v", time.Since(began), err)
			}
			if n, err := io.Copy(io.Discard, small.Body); n != 1<<10 || err != nil {
				t.Fatalf("after %v: %d bytes, %v", time.Since(began), n, err)
			}
			_ = small.Body.Close()
			time.Sleep(10 * time.Second)
		}
		if failure == nil || stalled < maxStall || stalled > maxStall+time.Second {
			t.Errorf("the answer was written until %v: %v", stalled, failure)
		}
		if _, err := io.Copy(io.Discard, large.Body); err == nil {
			t.Error("the client has the whole answer")
		}
		client.CloseIdleConnections()
		_ = server.Close()
	})
}
