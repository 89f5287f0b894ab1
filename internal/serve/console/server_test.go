package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	v1 "glowplug/api/v1"
)

// event returns one that was a number of minutes ago.
func event(reason, message string, minutes int) v1.Event {
	e := v1.Event{Reason: reason, Message: message, Type: v1.EventWarning, Count: 3,
		LastTimestamp:  metav1.Time{Time: time.Now().Add(-time.Duration(minutes) * time.Minute)},
		InvolvedObject: v1.ObjectReference{Kind: "BareMetalHost", Name: "node-1"}}
	e.Namespace = "rack-a"
	return e
}

// TestEventsAreListed: the newest first, with their objects, and with a count of what the filter hides.
func TestEventsAreListed(t *testing.T) {
	left := int64(6)
	events := answers{
		"events": v1.EventList{Items: []v1.Event{event("Old", "first", 9), event("New", evil, 1), event("Other",
			"second", 5)}},
		"events?fieldSelector=reason%3DNew&limit=1000": v1.EventList{Items: []v1.Event{event("New",
			"only", 1)}},
		"events?limit=1": v1.EventList{Items: []v1.Event{event("Old", "first", 9)},
			ListMeta: metav1.ListMeta{RemainingItemCount: &left}},
	}
	page := events.open(t, "events")
	has(t, page, "showing 3 of 3 events</p>", "New", "x3", `href="/console/hosts/rack-a/node-1"`,
		"&lt;script&gt;", "second", "first")
	hasNone(t, page, "<script>alert", "\x1b", "\u202e", "hides")
	has(t, events.open(t, "events?reason=New"), `value="New"`,
		"showing 1 of 1 event; the filter hides 6", "only")
	has(t, events.open(t, "events?name=rack-a/node-7"), "showing 0 of 0 events", "the filter hides 7", "There are no events.")
	has(t, answers{"events": errors.New("ann cannot list events")}.open(t, "events"), "ann cannot list events")
}

// TestEventsAreBounded: the page has the newest events, and says where not all were read.
func TestEventsAreBounded(t *testing.T) {
	var many []v1.Event
	for i := range 1000 {
		many = append(many, event("Many", fmt.Sprintf("message-%04d", i), i))
	}
	events := answers{"events": v1.EventList{Items: many}}
	page := events.open(t, "events?type=Warning")
	has(t, page, "showing 200 of 1000 events", "message-0000", "message-0199")
	hasNone(t, page, "message-0200")
	events["events"] = v1.EventList{Items: many, ListMeta: metav1.ListMeta{Continue: "for ever"}}
	has(t, events.open(t, "events"), "of 10000 events", "There are more than were read")
}

// knows has the server know a fact about itself.
func knows(o *Options) {
	o.Facts = func() []Fact { return []Fact{{"own certificate", "valid for 3 days", true}} }
}

// TestServerIsShown: what is not ready comes first, then facts.
func TestServerIsShown(t *testing.T) {
	page := answers{}.open(t, "server", knows)
	has(t, page, "Not ready: 1 of 2 parts", "<code>nats</code> failed: reason withheld", "the program answers",
		"own certificate", "valid for 3 days")
}

// TestServersOfTheStoreAreShown: to users who may list them.
func TestServersOfTheStoreAreShown(t *testing.T) {
	member := v1.Member{Status: v1.MemberStatus{State: v1.MemberMissing, Address: "192.0.2.2", Errors: []string{evil}}}
	member.Name = "boot-2"
	has(t, answers{"members": v1.MemberList{Items: []v1.Member{member}}}.open(t, "server"), "Servers of the store",
		"boot-2", `<span class="state e"><span aria-hidden="true">!</span> Missing`, `\u202eevil`, "192.0.2.2")
	hasNone(t, answers{}.open(t, "server"), "Servers of the store")
}

// TestServerFactsNeedTheRight: who may not get /metrics sees whether the server is ready, and why not more.
func TestServerFactsNeedTheRight(t *testing.T) {
	var asked []string
	page := answers{}.open(t, "server", knows, func(o *Options) {
		o.MayGet = func(_ context.Context, who user.Info, path string) bool {
			asked = append(asked, who.GetName()+" "+path)
			return false
		}
	})
	has(t, page, "Not ready", "user &#34;ann&#34; cannot get path &#34;/metrics&#34;")
	hasNone(t, page, "own certificate")
	if !slices.Equal(asked, []string{"ann /metrics"}) {
		t.Errorf("asked for %q", asked)
	}
}
