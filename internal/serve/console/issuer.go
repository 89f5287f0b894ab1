package console

import (
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"

	"glowplug/internal/serve/session"
)

// issuerPages lead users to an OpenID Connect issuer and back.
type issuerPages struct{ server *Server }

// served passes requests over HTTPS to h, if users sign in with an issuer.
func (i issuerPages) served(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case i.server.opts.OIDC == nil:
			http.NotFound(w, r)
		case r.TLS == nil:
			i.server.showSignIn(w, r, http.StatusForbidden, "Nobody signs in over plain HTTP.")
		default:
			h(w, r)
		}
	}
}

// begin leads a browser to the issuer.
func (i issuerPages) begin(w http.ResponseWriter, r *http.Request) {
	at, cookie, refused := i.server.opts.OIDC.Begin(i.server.sessions, r, nextOf(r.URL.Query().Get("next")))
	if refused != nil {
		i.server.refuse(w, r, "OpenID Connect", refused)
		return
	}
	http.SetCookie(w, cookie)
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, at, http.StatusSeeOther)
}

// finish takes a browser that the issuer leads back. It answers with a page that goes on, and not with a redirect:
// a browser on the way from the site of the issuer would not send the cookie of the session.
func (i issuerPages) finish(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, session.Back(r))
	var who user.Info
	cookie, next, refused := i.server.opts.OIDC.Finish(i.server.sessions, r, func(asked *http.Request) bool {
		who = i.server.opts.User(asked)
		return who != nil
	})
	if refused != nil {
		i.server.refuse(w, r, "OpenID Connect", refused)
		return
	}
	i.server.tell(r, "a user has signed in to the console", who.GetName())
	http.SetCookie(w, cookie)
	w.Header().Set("Cache-Control", "no-store")
	i.server.render(w, http.StatusOK, "signin", map[string]any{"IsDone": true, "Next": next, "User": who.GetName()})
}
