package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxForm bounds the body of a form, in bytes.
	maxForm = 64 << 10
	// maxNext bounds the address of a page to go on to, in bytes: a cookie has to hold it.
	maxNext = 2000
)

// signInPage shows the form. A user with a session is not led on from here: a redirect would take the code of a
// one-time link along, which this server does not see.
func (s *Server) signInPage(w http.ResponseWriter, r *http.Request) {
	if who, _, _ := s.authenticate(r); who != nil && s.opts.IsLocal(r) {
		http.Redirect(w, r, nextOf(r.URL.Query().Get("next")), http.StatusSeeOther)
		return
	}
	s.showSignIn(w, r, http.StatusOK, "")
}

func (s *Server) showSignIn(w http.ResponseWriter, r *http.Request, status int, problem string) {
	w.Header().Set("Cache-Control", "no-store")
	next := nextOf(r.FormValue("next"))
	page := map[string]any{
		"Next": next, "Problem": problem, "Address": s.insecureAddress(r), "IsForeign": isForeign(r),
	}
	if who, _, _ := s.authenticate(r); who != nil {
		page["User"] = who.GetName()
	}
	if name := s.issuer.name(); name != "" {
		page["Issuer"], page["IssuerLink"] = name, s.issuer.link(next)
	}
	s.render(w, status, "signin", page)
}

// isForeign reports whether a link on a page of another site leads here. Its author may have made a one-time link for
// himself, so that whoever follows it works as him: the page asks before it uses the link.
func isForeign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}

// insecureAddress is where to sign in instead, for a request over plain HTTP; "": here.
func (s *Server) insecureAddress(r *http.Request) string {
	if r.TLS != nil || s.opts.IsLocal(r) {
		return ""
	}
	return s.opts.Address(r)
}

// signIn begins a session with a token, or with the code of a one-time link.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	token := strings.TrimSpace(r.PostFormValue("token"))
	switch code := r.PostFormValue("code"); {
	case r.TLS == nil:
		s.showSignIn(w, r, http.StatusForbidden, "A token is not accepted over plain HTTP.")
		return
	case code != "":
		if token = s.links.redeem(code, time.Now()); token == "" {
			s.refuse(r, "a link", "there is no such link")
			s.showSignIn(w, r, http.StatusUnauthorized,
				"The link is not valid any more: it works once, within a minute. Run glowplug console again.")
			return
		}
	case token == "":
		s.showSignIn(w, r, http.StatusUnprocessableEntity, "The token is missing.")
		return
	}
	if s.opts.User(withToken(r, token)) == nil {
		s.refuse(r, "a token", "the token is not valid")
		s.showSignIn(w, r, http.StatusUnauthorized, "The server does not know this token, or it is not valid any more.")
		return
	}
	cookie, err := s.sessions.cookie(r, token, time.Time{}, time.Now())
	if err != nil {
		s.showSignIn(w, r, http.StatusUnprocessableEntity, "The token cannot be used here: "+err.Error()+".")
		return
	}
	if former := s.sessions.of(r, time.Now()); former != nil {
		s.sessions.end(former)
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, nextOf(r.PostFormValue("next")), http.StatusSeeOther)
}

// refuse logs that somebody could not sign in, as long as there are few such lines.
func (s *Server) refuse(r *http.Request, by, reason string) {
	if s.lines.Allow() {
		s.opts.Logger.Warn("a user could not sign in to the console", "by", by, "client", r.RemoteAddr, "error", reason)
	}
}

// signOut ends the session of a browser.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request) {
	if found := s.sessions.of(r, time.Now()); found != nil {
		s.sessions.end(found)
	}
	http.SetCookie(w, ownCookie(cookieName(r), "", 0, http.SameSiteStrictMode))
	http.Redirect(w, r, Prefix+"sign-in", http.StatusSeeOther)
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

// nextOf returns the page to go on to, which is one of the console.
func nextOf(next string) string {
	at, err := url.Parse(next)
	if err != nil || len(next) > maxNext || at.Host != "" || at.Scheme != "" || !strings.HasPrefix(at.Path, Prefix) ||
		strings.HasPrefix(at.Path, Prefix+"sign-in") || at.Path == Prefix+"callback" || strings.ContainsAny(next, "\\\r\n") {
		return Prefix
	}
	return next
}
