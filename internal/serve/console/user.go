package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"glowplug/internal/serve/session"
)

// authenticate returns the user of a request: by the cookie of his session, else by a client certificate or by the
// listener. asked is the request with the credential, and until the end of the session; zero: it has none.
func (s *Server) authenticate(r *http.Request) (who user.Info, asked *http.Request, until time.Time) {
	found := s.sessions.Of(r, time.Now())
	if found != nil && !s.opts.IsLocal(r) && r.TLS != nil {
		asked = session.WithToken(r, found.Token)
		return s.opts.User(asked), asked, found.Until
	}
	if r.Header.Get("Authorization") != "" { // a page is not for programs; a browser sends none of its own accord
		return nil, r, time.Time{}
	}
	return s.opts.User(r), r, time.Time{}
}

// whileSignedIn has end called when the user is not signed in any more, until forget is called: what lasts is not
// authenticated again with a request.
func (p *page) whileSignedIn(end context.CancelFunc) (forget func()) {
	forgetToken := p.server.opts.Lasting(p.asked, end)
	forgetSession := p.server.sessions.Follow(p.request, end)
	if p.HasSession() && p.server.sessions.Of(p.request, time.Now()) == nil || p.server.opts.User(p.asked) == nil {
		end() // since a moment ago
	}
	return func() {
		forgetToken()
		forgetSession()
	}
}

// whoami says who is signed in. The page for signing in asks it: a link from another site opens that page without the
// cookie, which its own requests have.
func (s *Server) whoami(w http.ResponseWriter, r *http.Request) {
	who, _, _ := s.authenticate(r)
	if who == nil {
		http.Error(w, "nobody is signed in", http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(map[string]string{"user": who.GetName()}) // the client may have gone away
}

// toSignIn answers a request of nobody: a page leads to the form, anything else is 401.
func (s *Server) toSignIn(w http.ResponseWriter, r *http.Request) {
	if s.opts.IsLocal(r) {
		http.Error(w, "this listener is for root and the user of the server", http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Dest") == "empty" {
		http.Error(w, "your session has ended: sign in again", http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, Prefix+"sign-in?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
}
