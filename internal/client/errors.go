package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Warnings returns the texts of an answer's Warning headers.
func Warnings(header http.Header) []string {
	parsed, _ := utilnet.ParseWarningHeaders(header["Warning"])
	texts := make([]string, 0, len(parsed))
	for _, w := range parsed {
		texts = append(texts, w.Text)
	}
	return texts
}

// Refused is an answer that is no success.
type Refused struct {
	Code int
	// Message is the server's sentence.
	Message string
	// retryAfter reports whether the server asks for another try.
	retryAfter bool
}

func (e *Refused) Error() string {
	return fmt.Sprintf("the server answered %d %s: %s", e.Code, http.StatusText(e.Code), e.Message)
}

func refused(resp *http.Response, answer []byte) error {
	message := strings.TrimSpace(string(answer))
	var status metav1.Status
	if json.Unmarshal(answer, &status) == nil && status.Message != "" {
		message = status.Message
	}
	return &Refused{Code: resp.StatusCode, Message: message, retryAfter: resp.Header.Get("Retry-After") != ""}
}

// Code returns the HTTP status of an error that is an answer of the server, and 0 of any
// other.
func Code(err error) int {
	var refused *Refused
	if errors.As(err, &refused) {
		return refused.Code
	}
	return 0
}

// MayRetry reports whether the same request may succeed later: it had no answer, or one of
// a server that asks for another try or is overloaded.
func MayRetry(err error) bool {
	var refused *Refused
	if !errors.As(err, &refused) {
		return true
	}
	overloaded := []int{http.StatusRequestTimeout, http.StatusServiceUnavailable, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusGatewayTimeout}
	return refused.retryAfter || slices.Contains(overloaded, refused.Code)
}
