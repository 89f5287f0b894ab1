package egress

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// TestPlain asks what is no web server, or a bad one: of what it says nothing stands in
// the error.
func TestPlain(t *testing.T) {
	speak := func(text string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				// Read the request first: a reset would take the answer away.
				_, _ = http.ReadRequest(bufio.NewReader(conn))
				_, _ = conn.Write([]byte(text))
				_ = conn.Close()
			}
		}()
		return l.Addr().String()
	}
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	closed := speak("")
	client := &http.Client{Transport: OnBehalf(&http.Transport{DialContext: NewDialer(listed(t, "127.0.0.0/8")).Dial,
		DisableKeepAlives: true})}
	roots := secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	for _, c := range []struct {
		client    *http.Client
		url, want string
	}{
		{client, "http://" + speak("SSH-2.0-secret\r\n"), "its answer cannot be read"},
		{client, "http://" + speak("HTTP/1.1 secret\r\n\r\n"), "its answer cannot be read"},
		{client, "http://" + speak("HTTP/1.1 200 OK\r\nsecret\r\n\r\n"), "its answer cannot be read"},
		{client, "http://" + speak("HTTP/1.1 302 Found\r\nLocation: http://secret:secret/%zz\r\n\r\n"), "its answer cannot be read"},
		{client, "http://" + speak("HTTP/1.1 302 Found\r\nLocation: gopher://secret/\r\n\r\n"), "its answer cannot be read"},
		{client, "http://" + closed, "the server hung up"},
		{client, "https://" + speak("HTTP/1.1 400 secret\r\n\r\n"), "it does not speak TLS"},
		{client, "http://127.0.0.1:1", "connection refused"},
		{client, "http://secret.invalid", ""}, // whatever the machine's name servers say
		{client, secure.URL, "its certificate is signed by an unknown authority"},
		{trusting, strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), "its certificate is for another name"},
	} {
		resp, err := c.client.Get(c.url)
		if err == nil {
			resp.Body.Close()
			t.Errorf("%s: %s", c.url, resp.Status)
			continue
		}
		got := Plain(err)
		if c.want != "" && got != c.want || strings.Contains(got, "secret") || strings.Contains(got, "127.0.0.1") {
			t.Errorf("%v: %q, want %q", err, got, c.want)
		}
	}
	dns := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "read udp 10.0.0.2:1->10.0.0.53:53: i/o timeout", Name: "secret", Server: "10.0.0.53:53", IsTimeout: true}}
	if got := Plain(dns); got != "the host name of the URL cannot be resolved" {
		t.Error(got)
	}
	refused := listed(t).unlisted("a.example")
	if got := Plain(errors.Join(refused)); got != refused.Error() {
		t.Error(got)
	}
	if got := publicAnd(t).check("vault.example", netip.MustParseAddr("127.0.0.1")).Redirected().Error(); strings.Contains(got, "vault") || !strings.HasPrefix(got, "what it redirects to is a loopback address") {
		t.Error(got)
	}
}
