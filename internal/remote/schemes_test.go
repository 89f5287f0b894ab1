package remote

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pin/tftp/v3"
)

// TestS3 fetches from a server that answers as S3 does to strangers.
func TestS3(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"} {
		t.Setenv(name, "must-not-be-sent")
	}
	w := serve(t)
	child := with(config(), "/a", "1")
	objects := map[string]string{"/configs/rack/a.ign": child, "/configs/a%2Bb%20c/%25d.ign": child,
		"/configs/rack/a.ign?versionId=v+1": child}
	elsewhere, tries := 0, 0 // the answer to the first request; failed requests
	w.handleRest(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Authorization", "X-Amz-Security-Token"} {
			if r.Header.Get(name) != "" {
				t.Errorf("%s is sent", name)
			}
		}
		content, known := objects[r.URL.RequestURI()]
		switch {
		case strings.HasPrefix(r.URL.Path, "/busy/"):
			tries++
			out.WriteHeader(http.StatusServiceUnavailable)
		case elsewhere != 0:
			out.Header().Set("X-Amz-Bucket-Region", "eu-central-1")
			out.WriteHeader(elsewhere)
			elsewhere = 0
		case !known:
			out.WriteHeader(http.StatusNotFound)
		default:
			_, _ = io.WriteString(out, content)
		}
	}))
	r := rendererOf(t, Options{Allow: mustAllow(t, "127.0.0.0/8"), Endpoints: Endpoints{S3: w.URL}})
	t.Run("If IAM credentials are not successfully fetched, Ignition will attempt to fetch the file with no credentials.",
		func(t *testing.T) {
			for _, source := range []string{"s3://configs/rack/a.ign", "arn:aws:s3:::configs/rack/a.ign",
				"s3://configs/a+b%20c/%25d.ign", "s3://configs/rack/a.ign?versionId=v%201"} {
				if got := filesOf(t, render(t, r, merge1(source, hashed(child)))); got != "/a=1" {
					t.Error(got)
				}
			}
			for _, elsewhere = range []int{301, 400, 403} {
				if got := filesOf(t, render(t, r, merging("s3://configs/rack/a.ign"))); got != "/a=1" {
					t.Error(got)
				}
			}
		})
	for source, want := range map[string]string{
		"s3://configs/rack/none.ign":              "the object cannot be fetched: the server answered 404 Not Found",
		"s3://busy/a.ign":                         "it cannot be fetched: the server answered 503 Service Unavailable",
		"s3://none/a.ign":                         "404",
		"arn:aws:s3:::configs":                    "it is no valid config",
		"arn:aws:sns:eu:1:a/b":                    "it is no valid config",
		"arn:aws:s3:eu:1:accesspoint/a/b":         "access point",
		"s3://configs/rack/a.ign?versionId=abcde": "404",
	} {
		e := refuse(t, r, merging(source))
		has(t, e.Error(), want)
		hasNot(t, e.Error(), w.URL, "abcde")
	}
	if tries != s3Tries {
		t.Errorf("a busy server was asked %d times", tries)
	}
	has(t, refuse(t, r, merge1("s3://configs/rack/a.ign", `, "compression": "gzip"`)).Error(),
		"compression is not supported with s3")
	has(t, refuse(t, rendererOf(t, Options{Allow: mustAllow(t, "10.0.0.0/8"), Endpoints: Endpoints{S3: w.URL}}),
		merging("s3://configs/rack/a.ign")).Error(), "loopback")
}

// TestAmazon looks at where requests for S3 go, which are refused here.
func TestAmazon(t *testing.T) {
	for source, want := range map[string]string{
		"s3://configs/a":                 `configs.s3.dualstack.us-east-1.amazonaws.com`,
		"s3://con.figs/a":                `s3.dualstack.us-east-1.amazonaws.com`,
		"arn:aws-us-gov:s3:::configs/a":  `configs.s3.dualstack.us-gov-west-1.amazonaws.com`,
		"arn:aws-cn:s3:::configs/a":      `configs.s3.dualstack.cn-north-1.amazonaws.com.cn`,
		"arn:aws:s3:::configs_old/a/b:c": `s3.dualstack.us-east-1.amazonaws.com`,
		"arn:aws:s3:eu-west-1:123456789012:accesspoint/ap/object/a/b": `ap-123456789012.s3-accesspoint.dualstack.` +
			`eu-west-1.amazonaws.com`,
	} {
		e := refuse(t, renderer(t, "some.example"), merging(source))
		if e.Kind != Refused {
			t.Errorf("kind %d", e.Kind)
		}
		has(t, e.Error(), "(--allow-fetch="+want+")")
	}
	for _, source := range []string{"arn:aws:s3:eu-west-1:12/evil.example:accesspoint/ap/object/a",
		"arn:aws:s3:evil.example/:123456789012:accesspoint/ap/object/a", "arn:aws:s3:::accesspoint/ap/object/a"} {
		if e := refuse(t, renderer(t, "some.example"), merging(source)); e.Kind == Refused {
			t.Errorf("%s: %v", source, e)
		}
	}
}

// TestGS fetches from a fake of the one answer of Google Cloud Storage that is needed:
// an object by its name in a path. There is no such server in Go to be had that is not
// a program of its own.
func TestGS(t *testing.T) {
	w := serve(t)
	w.page("/bucket/a b/c.ign", with(config(), "/a", "1"))
	r := rendererOf(t, Options{Allow: mustAllow(t, "127.0.0.0/8"), Endpoints: Endpoints{GS: w.URL}})
	if got := filesOf(t, render(t, r, merging("gs://bucket/a%20b/c.ign"))); got != "/a=1" {
		t.Error(got)
	}
	if h := w.asked()[0].Header; h.Get("Authorization") != "" || w.asked()[0].URL.EscapedPath() != "/bucket/a%20b/c.ign" {
		t.Errorf("%v %s", h, w.asked()[0].URL)
	}
	has(t, refuse(t, r, merging("gs://bucket/none")).Error(), "404")
	has(t, refuse(t, r, merging("gs://bucket")).Error(), "gs://BUCKET/OBJECT")
	has(t, refuse(t, renderer(t, "some.example"), merging("gs://bucket/a")).Error(), "storage.googleapis.com")
}

func TestTFTP(t *testing.T) {
	child := with(config(), "/a", strings.Repeat("x", 3000))
	files := map[string][]byte{"/rack/a.ign": []byte(child), "/rack/a.gz": packed(t, child), "/large": make([]byte,
		maxPart+1)}
	server := tftp.NewServer(func(name string, to io.ReaderFrom) error {
		content, ok := files[name]
		if !ok {
			return errors.New("no such file")
		}
		_, err := to.ReadFrom(bytes.NewReader(content))
		return err
	}, nil)
	server.SetTimeout(time.Second)
	server.SetRetries(1)
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = server.Serve(conn); close(done) }()
	t.Cleanup(func() { server.Shutdown(); <-done })
	base := "tftp://" + conn.LocalAddr().String()
	for _, c := range []string{merge1(base+"/rack/a.ign", hashed(child)), merge1(base+"/rack/a.gz",
		`, "compression": "gzip"`+hashed(child))} {
		if got := filesOf(t, render(t, renderer(t), c)); len(got) != len("/a=")+3000 {
			t.Error(got)
		}
	}
	has(t, refuse(t, renderer(t), merging(base+"/none")).Error(), "the server has no such file")
	has(t, refuse(t, renderer(t), merging(base+"/large")).Error(), "more than 8388608 bytes")
	e := refuse(t, renderer(t, "10.0.0.0/8"), merging(base+"/rack/a.ign"))
	has(t, e.Error(), "a loopback address")

	silent, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	r := rendererOf(t, Options{Allow: mustAllow(t, "127.0.0.1"), Timeout: 200 * time.Millisecond})
	if e := refuse(t, r, merging("tftp://"+silent.LocalAddr().String()+"/a")); e.Kind != TimedOut {
		t.Error(e)
	}
}
