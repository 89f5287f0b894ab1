package machine

import "strings"

// matchesAny reports whether the lines of an If-None-Match header name etag, which
// is in its quotes. Weak tags match (RFC 9110, 13.1.2), and "*" matches all. Of a
// malformed list, the tags before the fault count.
func matchesAny(lines []string, etag string) bool {
	for _, list := range lines {
		for {
			list = strings.TrimLeft(list, " \t,")
			if list == "" {
				break
			}
			if list[0] == '*' {
				return true
			}
			list = strings.TrimPrefix(list, "W/")
			if list == "" || list[0] != '"' {
				break
			}
			end := strings.IndexByte(list[1:], '"')
			if end < 0 {
				break
			}
			if list[:end+2] == etag {
				return true
			}
			list = list[end+2:]
		}
	}
	return false
}
