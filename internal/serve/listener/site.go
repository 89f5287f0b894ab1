package listener

import (
	"net/http"
	"strings"
)

// crossOrigin compares the headers by which a browser names the site of a page.
var crossOrigin = http.NewCrossOriginProtection()

// OfOtherSite reports whether a page of another site in a browser has caused a request, whatever its method.
// Programs that are no browsers send neither Origin nor Sec-Fetch-Site.
//
// A page of plain HTTP is of another site than this server at TLS, also with its name and port: whoever is on the
// way wrote it. Without TLS here a proxy may have ended it, and the schemes are not compared.
func OfOtherSite(r *http.Request) bool {
	if len(r.Header["Origin"]) == 0 && len(r.Header["Sec-Fetch-Site"]) == 0 {
		return false
	}
	if r.TLS != nil && strings.HasPrefix(strings.ToLower(r.Header.Get("Origin")), "http://") {
		return true
	}
	write := *r
	write.Method = http.MethodPost // of a GET nothing would be compared
	return crossOrigin.Check(&write) != nil
}

// FromNoOtherSite passes on the requests that no page of another site has caused, and those by which a browser
// opens a page of its own, as for a link. The others go to refuse: such a page may not change anything, nor read a
// stream. A browser shows it the answers to a WebSocket, which is a GET.
func FromNoOtherSite(next, refuse http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if OfOtherSite(r) && !opensPage(r) {
			refuse.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// opensPage reports whether a browser opens the answer as a page of its own, of which other pages read nothing.
func opensPage(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document" && r.Header.Get("Upgrade") == ""
}
