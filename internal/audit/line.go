package audit

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// appendLine appends the line of an answer: an Event of audit.k8s.io/v1, in the form in which the library writes
// it. The library's encoder takes longer than the answer to a machine.
func appendLine(b []byte, a *Answer, now time.Time) []byte {
	b = append(b, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"`...)
	b = appendID(b)
	b = append(b, `","stage":"ResponseComplete"`...)
	var room [usualURI]byte
	b = append(b, `,"requestURI":`...)
	b, _ = jsontext.AppendQuote(b, appendURI(room[:0], a.Path, a.Query, machineParameters))
	b = appendText(b, `,"verb":`, clip(a.Verb, 16))
	if a.User == anonymous {
		b = append(b, anonymousUser...)
	} else {
		b = appendUser(b, a.User)
	}
	if a.From.IsValid() {
		b = append(b, `,"sourceIPs":["`...)
		b = a.From.AppendTo(b)
		b = append(b, `"]`...)
	}
	b = appendFilled(b, `,"userAgent":`, clip(a.Agent, maxText))
	if o := &a.Object; o.Resource != "" {
		b = appendText(b, `,"objectRef":{"resource":`, o.Resource)
		b = appendFilled(b, `,"namespace":`, clip(o.Namespace, maxText))
		b = appendFilled(b, `,"name":`, clip(o.Name, maxText))
		b = append(b, `,"apiVersion":"v1"`...)
		if o.Revision != 0 {
			b = append(strconv.AppendUint(append(b, `,"resourceVersion":"`...), o.Revision, 10), '"')
		}
		b = append(b, '}')
	}
	b = appendStatus(b, a)
	b = appendTime(b, `,"requestReceivedTimestamp":"`, a.At)
	b = appendTime(b, `,"stageTimestamp":"`, now)
	return appendAnnotations(b, a)
}

// appendID appends a random UUID of version 4 (RFC 9562, section 5.4). It is unique, and no secret.
func appendID(b []byte) []byte {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], rand.Uint64()&^0xf000|0x4000)
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()&^(3<<62)|2<<62)
	b = append(hex.AppendEncode(b, id[:4]), '-')
	b = append(hex.AppendEncode(b, id[4:6]), '-')
	b = append(hex.AppendEncode(b, id[6:8]), '-')
	b = append(hex.AppendEncode(b, id[8:10]), '-')
	return hex.AppendEncode(b, id[10:])
}

// anonymousUser is the user of almost all lines.
var anonymousUser = appendUser(nil, anonymous)

func appendUser(b []byte, u user.Info) []byte {
	b = appendText(b, `,"user":{"username":`, u.GetName())
	b = appendFilled(b, `,"uid":`, u.GetUID())
	for i, group := range u.GetGroups() {
		key := `,`
		if i == 0 {
			key = `,"groups":[`
		}
		b = appendText(b, key, group)
	}
	if len(u.GetGroups()) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// reasons are those that the API gives with a status.
var reasons = map[int]metav1.StatusReason{
	http.StatusBadRequest:          metav1.StatusReasonBadRequest,
	http.StatusUnauthorized:        metav1.StatusReasonUnauthorized,
	http.StatusForbidden:           metav1.StatusReasonForbidden,
	http.StatusNotFound:            metav1.StatusReasonNotFound,
	http.StatusMethodNotAllowed:    metav1.StatusReasonMethodNotAllowed,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
}

func appendStatus(b []byte, a *Answer) []byte {
	b = append(b, `,"responseStatus":{"metadata":{}`...)
	if a.Status >= http.StatusBadRequest {
		b = appendText(b, `,"status":`, metav1.StatusFailure)
		b = appendFilled(b, `,"message":`, clip(strings.TrimSpace(a.Failure), maxText))
		b = appendFilled(b, `,"reason":`, string(reasons[a.Status]))
	}
	b = append(b, `,"code":`...)
	return append(strconv.AppendInt(b, int64(a.Status), 10), '}')
}

// appendAnnotations ends the line.
func appendAnnotations(b []byte, a *Answer) []byte {
	opening, isPointer := `,"annotations":{"`, ""
	if a.Pointer {
		isPointer = "true"
	}
	for _, annotation := range [...]struct{ key, value string }{ // in the order of the keys
		{AnnotationHash, a.Hash}, {AnnotationFoundBy, a.FoundBy}, {AnnotationHost, a.Host.String()},
		{AnnotationMatchedBy, a.MatchedBy}, {AnnotationPointer, isPointer},
	} {
		if annotation.value == "" {
			continue
		}
		b = append(append(b, opening...), annotation.key...)
		b = appendText(b, `":`, annotation.value)
		opening = `,"`
	}
	if opening == `,"` {
		b = append(b, '}')
	}
	return append(b, "}\n"...)
}

// appendText appends a key, as it is, and a text as JSON.
func appendText(b []byte, key, text string) []byte {
	b, _ = jsontext.AppendQuote(append(b, key...), text) // the error is that of bytes that it replaces
	return b
}

// appendFilled is appendText for a field that is left out if it is empty.
func appendFilled(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	return appendText(b, key, text)
}

// appendTime appends a key, and a time in the form metav1.RFC3339Micro.
func appendTime(b []byte, key string, at time.Time) []byte {
	b = at.UTC().AppendFormat(append(b, key...), time.RFC3339) // it is faster than other forms
	point := len(b) - 1                                        // the place of the Z
	b = strconv.AppendInt(b[:point], 1e6+int64(at.Nanosecond())/1e3, 10)
	b[point] = '.' // in place of the first digit
	return append(b, `Z"`...)
}
