package session

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	// maxCookie bounds the value of a cookie, as browsers do.
	maxCookie = 4000
	// maxContent bounds what a cookie is unpacked to, in bytes.
	maxContent = 64 << 10
)

// cookieName is that of the cookie at a listener: cookies do not distinguish ports.
func cookieName(r *http.Request) string {
	name := "__Host-glowplug"
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err == nil {
			name += "-" + port
		}
	}
	return name
}

// ownCookie is a cookie for requests over HTTPS to this host alone, which no script can read; without life it removes
// the one that the browser has.
func ownCookie(name, value string, life time.Duration, site http.SameSite) *http.Cookie {
	age := -1
	if life > 0 {
		age = max(1, int(life.Seconds()))
	}
	return &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: site}
}

// sealed returns the value of the cookie with that name. The content is compressed, since tokens are long. The length
// of the value reveals no secret: an attacker chooses no part of a token's cookie, and the secrets of a state cookie
// are used once.
func (s *Sessions) sealed(name string, content any) string {
	var packed bytes.Buffer
	// No step fails: the content is texts and a time, and goes to memory.
	w, _ := flate.NewWriter(&packed, flate.BestCompression)
	_ = json.NewEncoder(w).Encode(content)
	_ = w.Close()
	return base64.RawURLEncoding.EncodeToString(s.seal.Seal(nil, nil, packed.Bytes(), []byte(name)))
}

// open reads the cookie of a request that sealed has made, and reports whether there is one.
func (s *Sessions) open(r *http.Request, name string, content any) bool {
	cookie, err := r.Cookie(name)
	if err != nil {
		return false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return false
	}
	packed, err := s.seal.Open(nil, nil, sealed, []byte(name))
	if err != nil {
		return false
	}
	unpacked := io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxContent)
	return json.NewDecoder(unpacked).Decode(content) == nil
}
