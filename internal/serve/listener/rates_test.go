package listener

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestRates: the requests of a source are bounded over all its connections, each class by itself, and those of
// another source are not affected.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRates(10)
		from := func(source string) *http.Request {
			return (&http.Request{}).WithContext(r.ConnContext(context.Background(), source))
		}
		allowed := func(class Class, requests ...*http.Request) (n int) {
			for range 100 {
				for _, request := range requests {
					if r.Allow(request, class) {
						n++
					}
				}
			}
			return n
		}
		if n := allowed(Boots, from("192.0.2.1"), from("192.0.2.1")); n != 20 {
			t.Errorf("%d requests of two connections, want 20 at once", n)
		}
		if n := allowed(Others, from("192.0.2.1")); n != 20 {
			t.Errorf("%d requests of the other class", n)
		}
		if n := allowed(Boots, from("192.0.2.2")); n != 20 {
			t.Errorf("%d requests of another source", n)
		}
		if n := allowed(Boots, from("")); n != 100 {
			t.Errorf("%d requests of a source that is not bounded", n)
		}
		time.Sleep(time.Second)
		if n := allowed(Boots, from("192.0.2.1")); n != 10 {
			t.Errorf("%d requests a second later, want 10", n)
		}
		connected := 0
		for range 100 {
			if r.connects("192.0.2.1") {
				connected++
			}
		}
		if connected != 20 {
			t.Errorf("%d connections at once, want 20", connected)
		}
	})
	if !(*Rates)(nil).Allow(&http.Request{}, Boots) || !(*Rates)(nil).connects("192.0.2.1") {
		t.Error("there is a bound where none is set")
	}
}

// TestRatesAreBounded: a flood from many addresses does not fill the memory.
func TestRatesAreBounded(t *testing.T) {
	r := NewRates(1)
	for i := range maxSources + 100 {
		r.connects(fmt.Sprintf("source-%d", i))
	}
	if n := r.sources.Len(); n != maxSources {
		t.Errorf("%d sources are remembered", n)
	}
}
