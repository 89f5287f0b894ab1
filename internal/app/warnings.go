package app

import (
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Warnings gives the texts of the Warning headers.
func Warnings(header http.Header) []string {
	parsed, _ := utilnet.ParseWarningHeaders(header["Warning"])
	texts := make([]string, 0, len(parsed))
	for _, w := range parsed {
		texts = append(texts, w.Text)
	}
	return texts
}
