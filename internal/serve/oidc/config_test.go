package oidc

import (
	"log/slog"
	"strings"
	"testing"
)

const (
	head    = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	mapping = "  claimMappings: {username: {claim: sub, prefix: ''}}\n"
	good    = head + "jwt:\n- issuer: {url: 'https://127.0.0.1:1', audiences: [a]}\n" + mapping
)

// TestWrongFilesAreRefused: the error names the file and the field, or says what is wanted.
func TestWrongFilesAreRefused(t *testing.T) {
	issuer := func(fields string) string { return head + "jwt:\n- issuer: {" + fields + "}\n" + mapping }
	for content, want := range map[string]string{
		good:             "",
		head + "jwt: []": "",
		"# A comment.\n---\n" + good + "---\n# The end.\n": "",
		strings.Replace(good, "/v1\n", "/v1beta1\n", 1):    "",
		"":        "the file is empty",
		"# none":  "the file is empty",
		"jwt: []": "want apiVersion: apiserver.config.k8s.io/v1 and kind: AuthenticationConfiguration",
		strings.Replace(good, "/v1\n", "/v1alpha1\n", 1):                             "want apiVersion: apiserver.config.k8s.io/v1",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n": "want apiVersion: apiserver.config.k8s.io/v1",
		good + "---\n" + good:                                                         "more than one YAML document",
		issuer("url: 'https://127.0.0.1:1', audience: [a]"):                           `unknown field "jwt[0].issuer.audience"`,
		issuer("url: 'https://127.0.0.1:1', url: x, audiences: [a]"):                  "url",
		issuer("url: 'http://127.0.0.1:1', audiences: [a]"):                           "jwt[0].issuer.url",
		issuer("url: 'https://jo:pw@127.0.0.1:1', audiences: [a]"):                    "jwt[0].issuer.url",
		issuer("url: 'https://127.0.0.1:1'"):                                          "jwt[0].issuer.audiences",
		issuer("url: 'https://127.0.0.1:1', audiences: [a], certificateAuthority: x"): "jwt[0].issuer.certificateAuthority",
		issuer("url: 'https://127.0.0.1:1', audiences: [a], egressSelectorType: cluster"): "jwt[0].issuer.egressSelectorType: " +
			"Forbidden: glowplug connects to issuers directly",
		strings.Replace(good, "prefix: ''", "expression: x", 1):      "jwt[0].claimMappings.username",
		good + "  userValidationRules: [{expression: 'user.nam'}]\n": "jwt[0].userValidationRules[0].expression",
		good + good[strings.Index(good, "- issuer"):]:                "jwt[1].issuer.url: Duplicate value",
		good + "anonymous: {enabled: true}\n":                        "anonymous: Forbidden: glowplug has no anonymous access",
		good + "anonymous: {enabled: false}\n":                       "anonymous: Forbidden: glowplug has no anonymous access",
		head + "jwt:\n" + strings.Repeat("- {}\n", 65):               "jwt: Too many: 65: must have at most 64",
		good + "#" + strings.Repeat("x", maxSize):                    "the limit is 1048576",
	} {
		path := write(t, content)
		log := slog.New(slog.DiscardHandler)
		_, err := Open(t.Context(), path, log, log)
		switch {
		case (err != nil) != (want != ""):
			t.Errorf("%.200s: %v", content, err)
		case err != nil && (!strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path)):
			t.Errorf("%.200s: %v, want %s", content, err, want)
		}
	}
}
