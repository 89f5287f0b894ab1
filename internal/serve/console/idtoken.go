package console

import (
	"cmp"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// idClaims are the claims of an ID token that say for which sign-in it is.
type idClaims struct {
	Issuer     string    `json:"iss"`
	Audience   audiences `json:"aud"`
	Authorized string    `json:"azp"`
	Nonce      string    `json:"nonce"`
	Expires    float64   `json:"exp"`
}

// audiences is one text or a list of them.
type audiences []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audiences) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a))
}

// claimsOf reads the claims of an ID token and checks that it is for this client and the sign-in that a browser has
// begun (OpenID Connect Core 1.0, section 3.1.3.7). Options.User verifies the token.
func (i *issuer) claimsOf(token string, begun *signInState) (*idClaims, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("the ID token is no JWT")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, errors.New("the payload of the ID token is no base64")
	}
	var claims idClaims
	if err := json.Unmarshal(payload, &claims); err != nil {
		return nil, errors.New("the claims of the ID token cannot be read")
	}
	at, err := i.Issuers.IssuerFor(i.ClientID)
	switch {
	case err != nil:
		return nil, err
	case claims.Issuer != at:
		return nil, errors.New("the ID token is of another issuer")
	case !slices.Contains(claims.Audience, i.ClientID) || cmp.Or(claims.Authorized, i.ClientID) != i.ClientID:
		return nil, errors.New("the ID token is for another client")
	case subtle.ConstantTimeCompare([]byte(claims.Nonce), []byte(begun.Nonce)) != 1:
		return nil, errors.New("the nonce of the ID token is of another sign-in")
	case claims.Expires <= 0:
		return nil, errors.New("the ID token has no end")
	}
	return &claims, nil
}
