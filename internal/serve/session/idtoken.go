package session

import (
	"cmp"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// endOf validates the claims of an ID token: its issuer, its client and the nonce of the sign-in (OpenID Connect Core
// 1.0, section 3.1.3.7). It returns the expiry of the token, and does not verify the signature.
func endOf(token, issuer, clientID, nonce string) (end time.Time, err error) {
	var claims struct {
		Issuer     string  `json:"iss"`
		Audience   any     `json:"aud"` // one text or a list of them
		Authorized string  `json:"azp"`
		Nonce      string  `json:"nonce"`
		Expires    float64 `json:"exp"`
	}
	_, rest, _ := strings.Cut(token, ".")
	encoded, _, _ := strings.Cut(rest, ".")
	payload, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return end, errors.New("the ID token has no claims that can be read")
	}
	audiences, isList := claims.Audience.([]any)
	if !isList {
		audiences = []any{claims.Audience}
	}
	switch {
	case claims.Issuer != issuer:
		return end, errors.New("another issuer has made the ID token")
	case !slices.Contains(audiences, any(clientID)) || cmp.Or(claims.Authorized, clientID) != clientID:
		return end, errors.New("the ID token is for another client")
	case subtle.ConstantTimeCompare([]byte(claims.Nonce), []byte(nonce)) != 1:
		return end, errors.New("the ID token has the nonce of another sign-in")
	case claims.Expires <= 0:
		return end, errors.New("the ID token has no end")
	}
	return time.Unix(int64(claims.Expires), 0), nil
}
