package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	v1 "glowplug/api/v1"
)

// evil is what a machine may say of itself: markup, a colour of a terminal, and a text that runs backwards.
const evil = "</pre></td>\"'><script>alert(1)</script>\x1b[31m\u202eevil\x00"

// minutesAgo is a time of a boot.
func minutesAgo(n int) *metav1.MicroTime {
	return &metav1.MicroTime{Time: time.Now().Add(-time.Duration(n) * time.Minute)}
}

// bootOf returns a boot that has ended, whose config is that of its number.
func bootOf(host string, number int64, begun int, outcome string) v1.Boot {
	b := v1.Boot{
		Host: host, Number: number, Outcome: outcome, Begun: minutesAgo(begun), Ended: minutesAgo(begun - 1),
		Image: &v1.BootImage{Name: "rack-a/live", Release: "43.1"},
		Config: &v1.BootConfig{Name: "rack-a/worker", Generation: number, Hash: fmt.Sprintf("sha256:%064d", number),
			Version: "3.4.0"},
		Steps: []v1.BootStep{{Name: v1.StepScript, Time: *minutesAgo(begun)}, {Name: v1.StepConfig,
			Time: *minutesAgo(begun - 1)}},
	}
	b.Namespace, b.Name = "rack-a", fmt.Sprintf("%s.%d", host, number)
	return b
}

// stranger is a boot of an unknown machine.
func stranger() v1.Boot {
	b := bootOf("", 3, 5, v1.OutcomeFailed)
	b.Namespace, b.Name = "default", "unknown_52-54-00-aa-bb-cc.3"
	b.Reason = evil
	return b
}

// TestBootsAreListed: the newest first, each with its machine, outcome, image, release, config and duration, and the
// ways
// to what it was given and to what has changed.
func TestBootsAreListed(t *testing.T) {
	page := answers{"boots": v1.BootList{Items: []v1.Boot{
		bootOf("node-1", 7, 3, v1.OutcomeProvisioned), stranger(), bootOf("node-2", 1, 30, v1.OutcomeAbandoned),
		bootOf("node-1", 6, 4, v1.OutcomeFailed), bootOf("node-3", 1, 2000, v1.OutcomeFailed),
	}}}.open(t, "boots")
	has(t, page, "showing 4 boots that began in the last 24 h", "boots?last=all",
		`href="/console/hosts/rack-a/node-1"`, "boot 7", "Provisioned", `href="/console/images/rack-a/live"`, "43.1",
		`href="/console/configs/rack-a/worker"`, "g7 ", "1 min 0 s",
		`href="/console/boots/rack-a/node-1.7?with=node-1.6#differences"`,
		`href="/console/boots/rack-a/node-1.7#given"`, "boot 6", "unknown machine", "52-54-00-aa-bb-cc", "Failed", "node-2")
	hasNone(t, page, "<script>alert", "\x1b", "\u202e", "node-2.1?with", "node-3")
	has(t, answers{}.open(t, "boots?last=all"), "showing 0 boots</p>", "No boot matches.")
}

// TestBootsAreFiltered: the filter stands in the URL and goes to the API, whatever characters it has.
func TestBootsAreFiltered(t *testing.T) {
	for query, want := range map[string]string{
		"":                               "boots?fieldSelector=&limit=100",
		"?host=rack-a/node-1":            "boots/rack-a?fieldSelector=host%3Dnode-1&limit=100",
		"?ns=rack-a&outcome=Failed":      "boots/rack-a?fieldSelector=outcome%3DFailed&limit=100",
		"?image=rack-a/live":             "boots?fieldSelector=image%3Drack-a%2Flive&limit=100",
		"?unknown=1":                     "boots/default?fieldSelector=host%3D&limit=100",
		"?host=a,outcome%3Db%5C&image=x": `boots?fieldSelector=host%3Da%5C%2Coutcome%5C%3Db%5C%5C&limit=100`,
		"?continue=abc&former=1":         "boots?continue=abc&fieldSelector=&limit=100",
	} {
		page := answers{want: v1.BootList{Items: []v1.Boot{bootOf("found", 1, 3, "")}}}.open(t, "boots"+query)
		if !strings.Contains(query, "image=x") {
			has(t, page, "showing 1 boot", "rack-a/found")
		}
	}
	failed := bootOf("refused", 1, 3, v1.OutcomeProvisioned)
	failed.Reason = "it was refused its config"
	boots := answers{"boots": v1.BootList{Items: []v1.Boot{failed, bootOf("fine", 1, 3, v1.OutcomeProvisioned)}}}
	page := boots.open(t, "boots?outcome=failed&image=live&last=1h")
	has(t, page, "showing 1 boot that began in the last 1 h", "rack-a/refused")
	hasNone(t, page, "rack-a/fine")
}

// TestBootsGoOn: a long list has a way to the rest of it, and back to its begin, with the same filter.
func TestBootsGoOn(t *testing.T) {
	var many []v1.Boot
	for i := range 100 {
		many = append(many, bootOf(fmt.Sprint("node-", i), 2, 10+i, v1.OutcomeFailed))
	}
	list := v1.BootList{Items: many, ListMeta: metav1.ListMeta{Continue: "to+ken"}}
	has(t, answers{"boots": list}.open(t, "boots?outcome=Failed"), "showing 100 boots", "there may be more",
		`href="/console/boots?continue=to%2Bken&amp;last=24h&amp;outcome=Failed"`)
	later := answers{"boots": list}.open(t, "boots?outcome=Failed&continue=x&former=1")
	has(t, later, `a later part of the list: <a href="/console/boots?last=24h&amp;outcome=Failed"`, "&amp;former=1&amp;")
	hasNone(t, later, `data-every`)
}

// TestBootsOfSomeNamespaces: who may read boots of some namespaces has those together, and who may read none is told so
// by the API.
func TestBootsOfSomeNamespaces(t *testing.T) {
	nobody := func(o *Options) { o.MayList = func(context.Context, user.Info, string, string) bool { return false } }
	page := answers{"boots": errors.New("ann cannot list boots")}.open(t, "boots", nobody)
	has(t, page, "ann cannot list boots")
	hasNone(t, page, "showing", "No boot")
}

// TestBootIsShown: all that is known of a boot, with nothing of it read as markup and each odd character visible.
func TestBootIsShown(t *testing.T) {
	b := bootOf("node-1", 7, 3, v1.OutcomeFailed)
	b.Reason, b.UserAgent, b.KernelArguments, b.Client, b.Script = evil, evil, evil, evil,
		"sha256:"+strings.Repeat("5", 64)
	b.Match = &v1.BootMatch{Tier: "mac", Reason: evil}
	b.Facts = &v1.BootFacts{FoundBy: "mac", Claimed: map[string]string{"hostname": evil, "mac": "52:54:00:00:00:01"},
		Believed: map[string]string{"ip": "192.0.2.7", evil: "x"}}
	page := answers{
		"boots/rack-a/node-1.7": b, "baremetalhosts/rack-a/node-1": v1.BareMetalHost{},
		"boots/rack-a/node-1.7/rendered?part=config": []byte(`{"a":"` + evil + `<secret:x>"}`),
		"boots/rack-a/node-1.7/rendered?part=script": []byte("#!ipxe\n\techo " + evil + "\r\n"),
	}.open(t, "boots/rack-a/node-1.7")
	has(t, page, "node-1.7", "Failed", `\x1b[31m\u202eevil\x00`, "Script", "Config", "chosen by", "mac", "worker",
		"generation 7", "Ignition 3.4.0",
		"release 43.1", "555555555555", "User-Agent", "&lt;script&gt;", "Kernel arguments", "Found by mac", "hostname",
		"&lt;script&gt;",
		"not matched with", "192.0.2.7", "marks stand for what is secret", `/rendered?part=config`,
		"#!ipxe\n\techo &lt;/pre&gt;", `\x0d`+"\n")
	hasNone(t, page, "<script>alert", "</pre></td>", "\x1b", "\u202e", "\x00")
}

// TestBootOfAHostThatIsGone: the boot is there, and says that its host is not, or is another one.
func TestBootOfAHostThatIsGone(t *testing.T) {
	b := bootOf("node-1", 7, 3, v1.OutcomeProvisioned)
	b.HostUID = "old"
	boot := answers{"boots/rack-a/node-1.7": b}
	page := boot.open(t, "boots/rack-a/node-1.7")
	has(t, page, `its host is gone: baremetalhosts &#34;node-1&#34; not found`)
	hasNone(t, page, `href="/console/hosts/`)
	boot["baremetalhosts/rack-a/node-1"] = v1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{UID: "new"}}
	has(t, boot.open(t, "boots/rack-a/node-1.7"), "its host is gone, and another one has the name since")
	if page := boot.open(t, "boots/rack-a/node-1.8"); page.Code != http.StatusNotFound {
		t.Errorf("a boot that is not there: %d", page.Code)
	}
}

// TestBytesAreRefused: who may not read what a machine was given has the rest of the boot, and the words of the API.
func TestBytesAreRefused(t *testing.T) {
	boot := answers{
		"boots/rack-a/node-1.7":          bootOf("node-1", 7, 3, v1.OutcomeProvisioned),
		"boots/rack-a/node-1.7/rendered": errors.New(`vic cannot get "boots/rendered"`),
	}
	page := boot.open(t, "boots/rack-a/node-1.7")
	has(t, page, "Provisioned", `vic cannot get &#34;boots/rendered&#34;`, `vic cannot get &#34;boots/rendered&#34;`)
	hasNone(t, page, "Download")
	if page := boot.open(t, "boots/rack-a/node-1.7/rendered"); page.Code != http.StatusForbidden {
		t.Errorf("the bytes: %d", page.Code)
	}
}

// TestBytesAreAFile: no browser shows the bytes as a page, of whatever kind they are, and long ones are a file alone.
func TestBytesAreAFile(t *testing.T) {
	long := slices.Concat([]byte("<html><script>alert(1)</script>"), make([]byte, maxGiven))
	boot := answers{"boots/rack-a/node-1.7": bootOf("node-1", 7, 3, ""), "boots/rack-a/node-1.7/rendered": long}
	page := boot.open(t, "boots/rack-a/node-1.7")
	has(t, page, "256.0 KiB", "It is too long to be shown here.", "Download")
	hasNone(t, page, "<html><script>")
	file := boot.open(t, "boots/rack-a/node-1.7/rendered?part=script")
	for header, want := range map[string]string{
		"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff",
		"Content-Disposition": `attachment; filename=node-1.7-script.txt`, "Cache-Control": "no-store",
	} {
		if got := file.Header().Get(header); got != want {
			t.Errorf("%s: %q", header, got)
		}
	}
	if file.Body.String() != string(long) {
		t.Error("the file has other bytes")
	}
}

// TestBootsAreCompared: the older boot is the one before, whichever is asked for, and the configs are compared as far
// as
// the user may read them.
func TestBootsAreCompared(t *testing.T) {
	was, is := bootOf("node-1", 6, 30, v1.OutcomeFailed), bootOf("node-1", 7, 3, v1.OutcomeProvisioned)
	was.KernelArguments, is.KernelArguments = evil, "quiet"
	boots := answers{
		"boots/rack-a/node-1.6": was, "boots/rack-a/node-1.7": is, "boots/rack-a": v1.BootList{Items: []v1.Boot{is, was}},
		"boots/rack-a/node-1.6/rendered?part=config": []byte(`{"ignition":{"version":"3.4.0"}}`),
		"boots/rack-a/node-1.7/rendered?part=config": []byte(`{"ignition":{"version":` + jsonText(evil) + `}}`),
	}
	for _, path := range []string{"node-1.6?with=node-1.7", "node-1.7?with=node-1.6"} {
		page := boots.open(t, "boots/rack-a/"+path)
		has(t, page, `<th scope="col">rack-a/node-1.6</th><th scope="col">rack-a/node-1.7</th>`, "outcome", "Failed",
			"Provisioned",
			"kernel argument", "&lt;script&gt;", `<span class="removed">- `, `<span class="added">&#43; `,
			"Steps of node-1.6", "Steps of node-1.7",
			"glowplug diff rack-a/node-1.6 rack-a/node-1.7", "Compare with")
		hasNone(t, page, "<script>alert", "\x1b", "\u202e")
	}
	delete(boots, "boots/rack-a/node-1.6/rendered?part=config")
	has(t, boots.open(t, "boots/rack-a/node-1.6?with=node-1.7"), "the configs are not compared: ", "not found")
	has(t, boots.open(t, "boots/rack-a/node-1.6?with=node-9.9"),
		"node-9.9 is not compared with: boots &#34;node-9.9&#34; not found")
	has(t, boots.open(t, "boots/rack-a/node-1.6?with=node-1.6"), "a boot does not differ from itself")
}
