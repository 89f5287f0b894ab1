package report

import "strconv"

// Size writes a number of bytes as 812B, 4.1Ki, 2.0Mi; nothing as "".
func Size(n int64) string {
	switch {
	case n == 0:
		return ""
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + "B"
	case n < 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + "Ki"
	case n < 1<<30:
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + "Mi"
	}
	return strconv.FormatFloat(float64(n)/(1<<30), 'f', 1, 64) + "Gi"
}
