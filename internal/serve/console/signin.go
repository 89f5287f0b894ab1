package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"glowplug/internal/serve/session"
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
	page := map[string]any{"Next": next, "Problem": problem, "IsForeign": isForeign(r)}
	if r.TLS == nil && !s.opts.IsLocal(r) {
		page["Address"] = s.opts.Address(r) // where to sign in instead
	}
	if who, _, _ := s.authenticate(r); who != nil {
		page["User"] = who.GetName()
	}
	if name := s.opts.OIDC.Name(); name != "" {
		// The link has the host of the redirect URI: the browser sends the state cookie to that host alone.
		page["Issuer"], page["IssuerLink"] = name, s.opts.OIDC.URL+"sign-in/oidc?next="+url.QueryEscape(next)
	}
	s.render(w, status, "signin", page)
}

// isForeign reports whether a link on a page of another site leads here. Its author may have made a one-time link for
// himself, so that whoever follows it works as him: the page asks before it uses the link.
func isForeign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
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
		if token = s.links.Redeem(code, time.Now()); token == "" {
			s.refuse(w, r, "a link", &session.Refusal{Status: http.StatusUnauthorized, Reason: "there is no such link",
				Says: "The link is not valid any more: it works once, within a minute. Run glowplug console again."})
			return
		}
	case token == "":
		s.showSignIn(w, r, http.StatusUnprocessableEntity, "The token is missing.")
		return
	}
	who := s.opts.User(session.WithToken(r, token))
	if who == nil {
		s.refuse(w, r, "a token", &session.Refusal{Status: http.StatusUnauthorized, Reason: "the token is not valid",
			Says: "The server does not know this token, or it is not valid any more."})
		return
	}
	cookie, err := s.sessions.Begin(r, token, time.Time{}, time.Now())
	if err != nil {
		s.showSignIn(w, r, http.StatusUnprocessableEntity, "The token cannot be used here: "+err.Error()+".")
		return
	}
	s.tell(r, "a user has signed in to the console", who.GetName())
	http.SetCookie(w, cookie)
	http.Redirect(w, r, nextOf(r.PostFormValue("next")), http.StatusSeeOther)
}

// tell logs what a user has done to sign in, as long as there are few such lines.
func (s *Server) tell(r *http.Request, what, user string) {
	if s.told.Allow() {
		s.opts.Logger.Info(what, "user", user, "client", r.RemoteAddr)
	}
}

// makeLink answers a request with a token with the address of a page that signs in with it once.
func (s *Server) makeLink(w http.ResponseWriter, r *http.Request) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	switch {
	case r.TLS == nil:
		http.Error(w, "a link is made over HTTPS alone: name the server's HTTPS address", http.StatusForbidden)
		return
	case !strings.EqualFold(scheme, "Bearer") || s.opts.User(session.WithToken(r, token)) == nil:
		http.Error(w, "a link needs a token that the server knows; a client certificate signs in by itself, in a browser "+
			"that has it", http.StatusUnauthorized)
		return
	}
	who := s.opts.User(session.WithToken(r, token)).GetName()
	code := s.links.Add(who, token, time.Now())
	s.tell(r, "a link that signs in to the console was made", who)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(map[string]any{"path": Prefix + "sign-in#" + code, "seconds": session.LinkTime.Seconds()})
}

// refuse tells a user why he could not sign in, and the log, as long as there are few such lines.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, by string, refused *session.Refusal) {
	if refused.Reason != "" && s.lines.Allow() {
		s.opts.Logger.Warn("a user could not sign in to the console", "by", by, "client", r.RemoteAddr,
			"error", refused.Reason)
	}
	s.showSignIn(w, r, refused.Status, refused.Says)
}

// signOut ends the session of a browser.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, s.sessions.End(r, time.Now()))
	http.Redirect(w, r, Prefix+"sign-in", http.StatusSeeOther)
}

// nextOf returns the page to go on to, which is one of the console.
func nextOf(next string) string {
	at, err := url.Parse(next)
	if err != nil || len(next) > maxNext || path.Clean(at.Path) != strings.TrimSuffix(at.Path, "/") || at.Host != "" || at.Scheme != "" || !strings.HasPrefix(at.Path, Prefix) ||
		strings.HasPrefix(at.Path, Prefix+"sign-in") || at.Path == Prefix+"callback" || strings.ContainsAny(next, "\\\r\n") {
		return Prefix
	}
	return next
}
