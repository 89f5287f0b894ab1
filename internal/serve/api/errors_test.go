package api

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"glowplug/internal/logs/logstest"
)

// startLogged is startConfidential; it returns what the library has logged as well.
func startLogged(t *testing.T) (*api, func() string) {
	t.Helper()
	logger, logged := logstest.Logger()
	BridgeLogs(logger)
	t.Cleanup(func() { BridgeLogs(slog.New(slog.DiscardHandler)) })
	return startConfidential(t), logged
}

// TestAppliedValuesOfAWrongTypeQuoteNothing: an object whose values are none of their types is the client's error,
// with server-side apply and in a change set, and neither the answer nor the log quotes a value.
func TestAppliedValuesOfAWrongTypeQuoteNothing(t *testing.T) {
	a, logged := startLogged(t)
	const planted = "SECRETNOTB64!!"
	for given, want := range map[string]string{
		`"data":{"token":"` + planted + `"}`:                                "illegal base64 data",
		`"data":{"token":{"x":"` + planted + `"}}`:                          ".data.token: expected string",
		`"data":{"token":["a\n  .x","` + planted + `"]}`:                    ".data.token: expected string",
		`"data":"a\n` + planted + `"`:                                       ".data: expected map",
		`"data":{"a":["` + planted + `"]},"stringData":["` + planted + `"]`: ".stringData: expected map",
		`"immutable":"` + planted + `"`:                                     ".immutable: expected boolean",
		`"type":{"a":"` + planted + `"}`:                                    ".type: expected string",
		`"metadata":{"name":"x","creationTimestamp":"` + planted + `"}`:     "parsing time",
		`"metadata":{"name":"x","resourceVersion":"` + planted + `"}`:       "metadata.resourceVersion: Invalid value",
	} {
		text := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","namespace":"g10"},` + given + `}`
		if strings.HasPrefix(given, `"metadata"`) {
			text = `{"apiVersion":"v1","kind":"Secret",` + strings.Replace(given, `"x",`, `"x","namespace":"g10",`, 1) + `}`
		}
		for _, got := range []answer{
			a.do("POST", impactPath, `{"apply":[`+text+`]}`),
			a.do("PATCH", secretsPath+"/x?fieldManager=a", text, "Content-Type", "application/apply-patch+yaml"),
		} {
			body := string(got.body)
			if got.code != http.StatusBadRequest && got.code != http.StatusUnprocessableEntity ||
				!strings.Contains(body, want) || strings.Contains(body, planted) {
				t.Errorf("%s: %d %s, want %s", given, got.code, body, want)
			}
		}
	}
	if got := a.do("PUT", configs+"/secret", `{"metadata":{"name":"secret","resourceVersion":"`+planted+`"}}`); got.code !=
		http.StatusUnprocessableEntity || strings.Contains(string(got.body), planted) {
		t.Errorf("%d %s", got.code, got.body)
	}
	if text := logged(); strings.Contains(text, planted) {
		t.Errorf("the log has a value: %s", text)
	}
}
