package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"glowplug/internal/store/natsd/natstest"
	"glowplug/internal/testkit"
)

// fields are those of an object.
type fields = map[string]any

// kitchen is a server with hosts, as a machine and as an administrator sees it.
type kitchen struct {
	t              *testing.T
	admin, machine string
	objects        []fields
}

func newKitchen(t *testing.T, log io.Writer, flags ...string) *kitchen {
	t.Helper()
	k := &kitchen{t: t}
	address := freeAddress(t)
	k.admin = "http://" + address
	k.machine = runServerLogging(t, log, append(flags, "--admin-listen", address, "--identity-claims", "trust")...)
	k.add("ISCSICdrom", "live", "spec", fields{"external": fields{"portal": "192.0.2.9", "iqn": "iqn.2026-01.test:live"}})
	return k
}

// add adds an object of the namespace rack-a.
func (k *kitchen) add(kind, name, part string, value any) {
	k.objects = append(k.objects, fields{
		"apiVersion": "v1", "kind": kind, "metadata": fields{"name": name, "namespace": "rack-a"}, part: value,
	})
}

// addHost adds a host with a number, and its config.
func (k *kitchen) addHost(i int, host, config fields) {
	host["bootMACAddress"], host["image"] = mac(i), "live"
	k.add("BareMetalHost", fmt.Sprint("node-", i), "spec", host)
	config["selector"] = fields{"matchMACs": []string{mac(i)}}
	k.add("IgnitionConfig", fmt.Sprint("config-", i), "spec", config)
}

func (k *kitchen) apply() {
	k.t.Helper()
	var file bytes.Buffer
	for _, object := range k.objects {
		text, err := json.Marshal(object)
		if err != nil {
			k.t.Fatal(err)
		}
		file.WriteString("---\n" + string(text) + "\n")
	}
	k.objects = nil
	name := writeFile(k.t, filepath.Join(k.t.TempDir(), "objects.yaml"), file.Bytes())
	if code, out, errs := run("apply", "-f", name, "--server", k.admin); code != 0 {
		k.t.Fatal(code, out, errs)
	}
}

func mac(i int) string { return fmt.Sprintf("52:54:00:00:%02x:%02x", i/256, i%256) }

// get sends the request of a machine until the answer is a 200.
func (k *kitchen) get(path, userAgent string) (body []byte) {
	k.t.Helper()
	testkit.Until(k.t, path, func() bool {
		request, err := http.NewRequest(http.MethodGet, k.machine+path, nil)
		if err != nil {
			k.t.Fatal(err)
		}
		request.Header.Set("User-Agent", userAgent)
		resp, err := http.DefaultClient.Do(request)
		if err != nil {
			k.t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err = io.ReadAll(resp.Body); err != nil {
			k.t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
			k.t.Fatalf("%s: %s %s", path, resp.Status, body)
		}
		return resp.StatusCode == http.StatusOK
	})
	return body
}

// replay returns what the first boot of a host has of a part.
func (k *kitchen) replay(i int, flags ...string) (body, notes string) {
	k.t.Helper()
	args := append([]string{"replay", fmt.Sprintf("rack-a/node-%d.1", i), "--server", k.admin}, flags...)
	testkit.Until(k.t, strings.Join(args, " "), func() bool {
		var code int
		code, body, notes = run(args...)
		return code == 0
	})
	return body, notes
}

const planted = "planted-value-of-a-secret"

// ignitionSource returns a random config of a version, in a random form.
func ignitionSource(version, name string) string {
	files := []fields{}
	for i := range 1 + rand.IntN(4) {
		content := strings.Repeat(string(rune('a'+rand.IntN(26)))+"é\n", rand.IntN(2000))
		file := fields{"path": fmt.Sprintf("/etc/%s-%d", name, i), "mode": 0o644, "contents": fields{
			"source": "data:;base64," + base64.StdEncoding.EncodeToString([]byte(content)),
		}}
		if strings.HasPrefix(version, "2") {
			file["filesystem"] = "root"
		}
		files = append(files, file)
	}
	config := fields{"ignition": fields{"version": version}, "storage": fields{"files": files}}
	text, _ := json.Marshal(config) // of plain values
	if rand.IntN(2) == 0 {
		text, _ = json.MarshalIndent(config, "\t", strings.Repeat(" ", rand.IntN(9)))
	}
	return string(text) + strings.Repeat("\n", rand.IntN(3))
}

// randomCase is what a machine asks for.
type randomCase struct {
	config          fields
	path, userAgent string
}

func newCase(i int) randomCase {
	versions := []string{"3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.5.0"}
	version, read := versions[rand.IntN(len(versions))], versions[rand.IntN(len(versions))]
	c := randomCase{path: "/api/v1/ignition?mac=" + mac(i), userAgent: "Ignition/2.19.0"}
	name := fmt.Sprint("n", rand.IntN(5)) // some have the same content
	switch i % 6 {
	case 0, 1:
		c.config = fields{"type": "ignition", "format": "ignition", "config": ignitionSource(version, name)}
		c.path += "&spec=" + read
	case 2:
		c.config = fields{"type": "ignition", "format": "ignition",
			"config": ignitionSource([]string{"2.2.0", "2.3.0"}[rand.IntN(2)], name)}
		c.userAgent = "curl/8"
	case 3:
		c.config = fields{"type": "ignition", "format": "butane", "template": true, "config": fmt.Sprintf("variant: fcos\n"+
			"version: 1.%d.0\nstorage: {files: [{path: /etc/{{ .Name }}, contents: {inline: %s}}]}\n", 1+rand.IntN(5), name)}
		c.path += "&spec=" + read
	case 4:
		c.config = fields{"type": "kickstart", "format": "kickstart", "config": "text\nlang en_US.UTF-8\n# " + name + "\n"}
		c.path = "/api/v1/kickstart?mac=" + mac(i)
	case 5:
		c.config = fields{"type": "ignition", "format": "butane", "template": true, "config": fmt.Sprintf("variant: fcos\n"+
			"version: 1.%d.0\nstorage: {files: [{path: /a, contents: {inline: '{{ secret \"s\" \"k\" }}'}}]}\n",
			1+rand.IntN(5))}
		c.path += "&spec=" + read
	}
	return c
}

// unescaped writes a value and its placeholder in one way.
var unescaped = strings.NewReplacer(planted, "<secret:s/k>", "%3Csecret%3As%2Fk%3E", "<secret:s/k>", `\u003csecret:s/k\u003e`,
	"<secret:s/k>", "%3Csecret:s/k%3E", "<secret:s/k>")

// TestReplayIsWhatWasServed: the config and the script of a boot are replayed byte for byte, whatever the client reads;
// placeholders stand for the values of Secrets.
func TestReplayIsWhatWasServed(t *testing.T) {
	k := newKitchen(t, io.Discard)
	k.add("Secret", "s", "stringData", fields{"k": planted})
	cases := make([]randomCase, testkit.Few(100, 500))
	for i := range cases {
		cases[i] = newCase(i)
		k.addHost(i, fields{}, cases[i].config)
	}
	k.apply()
	type given struct{ script, config []byte }
	all := make([]given, len(cases))
	for i, c := range cases {
		all[i].script = k.get("/ipxe?try=0&mac="+mac(i), "iPXE/1.21")
		all[i].config = k.get(c.path, c.userAgent)
	}
	for i, was := range all {
		config, notes := k.replay(i)
		if i%6 != 5 && (config != string(was.config) || notes != "") {
			t.Errorf("%d: served\n%.300s\nreplayed\n%.300s\n%s", i, was.config, config, notes)
		}
		isMarked := !strings.Contains(config, planted) && strings.Contains(notes, "marks stand for what is secret")
		if i%6 == 5 && (unescaped.Replace(string(was.config)) != unescaped.Replace(config) || !isMarked) {
			t.Errorf("%d: served\n%.300s\nreplayed\n%.300s\n%s", i, was.config, config, notes)
		}
		if script, _ := k.replay(i, "--script"); script != string(was.script) {
			t.Errorf("%d: the script was\n%s\nreplayed\n%s", i, was.script, script)
		}
	}
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestSecretsAreNotKept: neither values of Secrets, nor the token of a boot, nor what the machine logs in to an image
// with, is in what is kept of boots, or in the log; nor is a hash of bytes that have them.
func TestSecretsAreNotKept(t *testing.T) {
	nats, log := natstest.Start(t), &lockedBuffer{}
	k := newKitchen(t, log, "--nats-url", nats.URL(), "--log-level", "debug")
	const user, password = "planted-user", "planted-pass-word"
	k.objects[0]["spec"].(fields)["chap"] = fields{"username": user, "password": password}
	k.add("Secret", "s", "stringData", fields{"k": planted})
	for i, config := range []string{
		"variant: fcos\nversion: 1.5.0\nstorage: {files: [{path: /a, contents: {inline: '{{ secret \"s\" \"k\" }}'}}]}\n",
		"variant: fcos\nversion: 1.5.0\npasswd: {users: [{name: core, password_hash: '{{ secret \"s\" \"k\" }}'}]}\n",
	} {
		k.addHost(i, fields{"provisioning": fields{"token": true}, "ipxe": "echo {{.Token}}\n{{.Sanboot}}"},
			fields{"type": "ignition", "format": "butane", "template": true, "config": config})
	}
	k.apply()
	secrets := []string{planted, base64.StdEncoding.EncodeToString([]byte(planted)), user, password}
	for i := range 2 {
		script := string(k.get("/ipxe?try=0&mac="+mac(i), "iPXE/1.21"))
		token := regexp.MustCompile(`echo ([a-z2-7]{32})\n`).FindStringSubmatch(script)
		if token == nil || !strings.Contains(script, user) || !strings.Contains(script, password) {
			t.Fatal(script)
		}
		spec := []string{"", "&spec=3.2.0"}[i]
		config := k.get("/api/v1/ignition?mac="+mac(i)+"&token="+token[1]+spec, "Ignition/2.19.0")
		if !strings.Contains(string(config), planted) {
			t.Fatalf("%s", config)
		}
		secrets = append(secrets, token[1], fmt.Sprintf("%x", sha256.Sum256(config)), fmt.Sprintf("%x", sha256.Sum256([]byte(script))))
		replayed, _ := k.replay(i)
		if !strings.Contains(unescaped.Replace(replayed), "<secret:s/k>") {
			t.Error(replayed)
		}
		replayed, notes := k.replay(i, "--script")
		for _, mark := range []string{"echo <token>\n", "set username <chap username>\n", "set password <chap password>\n"} {
			if !strings.Contains(replayed, mark) || notes == "" {
				t.Errorf("%s\n%s", replayed, notes)
			}
		}
	}
	names := []string{}
	js := nats.JetStream()
	list := js.ListStreams(t.Context())
	for info := range list.Info() {
		if strings.Contains(info.Config.Name, "BOOT") {
			names = append(names, info.Config.Name)
			everyMessage(t, js, info, func(data []byte) {
				for _, secret := range secrets {
					if bytes.Contains(data, []byte(secret)) {
						t.Errorf("%s has %s: %s", info.Config.Name, secret, data)
					}
				}
			})
		}
	}
	if len(names) < 3 || list.Err() != nil {
		t.Errorf("the streams of boots are %q, %v", names, list.Err())
	}
	lines := log.String()
	for _, secret := range secrets {
		if strings.Contains(lines, secret) {
			t.Errorf("the log has %s", secret)
		}
	}
}

// everyMessage calls each with the messages of a stream.
func everyMessage(t *testing.T, js jetstream.JetStream, info *jetstream.StreamInfo, each func(data []byte)) {
	t.Helper()
	stream, err := js.Stream(t.Context(), info.Config.Name)
	if err != nil {
		t.Fatal(err)
	}
	for sequence := info.State.FirstSeq; sequence <= info.State.LastSeq && sequence > 0; sequence++ {
		if msg, err := stream.GetMsg(t.Context(), sequence); err == nil { // or it was replaced
			each(msg.Data)
		}
	}
}

// TestDiffOfTwoBoots: what the machine was given and what became of it, and the values of its configs that differ for
// those who may read them.
func TestDiffOfTwoBoots(t *testing.T) {
	k := newKitchen(t, io.Discard)
	for generation := range 2 {
		source := fmt.Sprintf(`{"ignition":{"version":"3.4.0"},"passwd":{"users":[{"name":"core","shell":"/bin/sh%d"}]}}`, generation)
		k.addHost(0, fields{"bootMode": "forever"}, fields{"type": "ignition", "format": "ignition", "config": source})
		k.apply()
		testkit.Until(t, "the config is served", func() bool {
			_, out, _ := run("explain", "rack-a/node-0", "--server", k.admin, "-o", "json")
			return strings.Contains(out, fmt.Sprintf("%x", sha256.Sum256([]byte(source))))
		})
		k.get("/ipxe?try=0&mac="+mac(0), "iPXE/1.21")
		k.get("/api/v1/ignition?mac="+mac(0), fmt.Sprint("Ignition/2.19.", generation))
	}
	testkit.Until(t, "both configs are kept", func() bool {
		code, _, _ := run("replay", "rack-a/node-0.2", "--server", k.admin)
		return code == 0
	})
	code, out, errs := run("diff", "rack-a/node-0.1", "node-0.2", "-n", "rack-a", "--server", k.admin)
	for _, want := range []string{
		`(?m)^ +rack-a/node-0\.1 +rack-a/node-0\.2$`, `(?m)^outcome +Abandoned +Provisioning$`, `(?m)^config generation +1 +2$`,
		`(?m)^config hash +[0-9a-f]{12} +[0-9a-f]{12}$`, `(?m)^user agent +Ignition/2\.19\.0 +Ignition/2\.19\.1$`,
		`\n\npasswd\.users\[core\]\.shell\n- /bin/sh0\n\+ /bin/sh1\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s", want)
		}
	}
	if code != exitChanges || strings.Contains(out, "image") || t.Failed() {
		t.Errorf("%d %s%s", code, out, errs)
	}
	code, out, errs = run("diff", "rack-a/node-0.1", "rack-a/node-0.1", "--server", k.admin)
	if code != 0 || out != "nothing differs between the boots rack-a/node-0.1 and rack-a/node-0.1\n" {
		t.Errorf("%d %s%s", code, out, errs)
	}
	code, out, _ = run("diff", "rack-a/node-0.1", "rack-a/node-0.2", "--server", k.admin, "-o", "json")
	var answer struct{ Before, After, Content string }
	if err := json.Unmarshal([]byte(out), &answer); code != exitChanges || err != nil || answer.Before != "rack-a/node-0.1" ||
		answer.After != "rack-a/node-0.2" || !strings.Contains(answer.Content, "/bin/sh1") {
		t.Errorf("%d %v %s", code, err, out)
	}
	code, out, errs = run("diff", "rack-a/node-0.1", "rack-a/node-0.9", "--server", k.admin)
	if code != 1 || !strings.Contains(errs, `boots "node-0.9" not found`) {
		t.Errorf("%d %s%s", code, out, errs)
	}

	// A viewer sees what differs without the bytes.
	code, token, errs := run("token", "create", "vic", "-n", "rack-a", "--role", "view", "--server", k.admin)
	if code != 0 {
		t.Fatal(token, errs)
	}
	kubeconfig := writeFile(t, filepath.Join(t.TempDir(), "kubeconfig"), []byte(fmt.Sprintf("{apiVersion: v1, kind: Config, "+
		"current-context: a, clusters: [{name: a, cluster: {server: %q}}], users: [{name: a, user: {token: %q}}], "+
		"contexts: [{name: a, context: {cluster: a, user: a}}]}", k.machine, strings.TrimSpace(token))))
	code, out, errs = run("diff", "rack-a/node-0.1", "rack-a/node-0.2", "--kubeconfig", kubeconfig)
	if code != exitChanges || !strings.Contains(out, "config generation") || strings.Contains(out, "/bin/sh") ||
		!strings.Contains(out, "\nthe configs are not compared: the server answered 403 ") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if code, out, errs = run("replay", "rack-a/node-0.1", "--kubeconfig", kubeconfig); code != 1 || out != "" {
		t.Errorf("%d %s%s", code, out, errs)
	}
}
