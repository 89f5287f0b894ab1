package report

import "fmt"

// Size writes a number of bytes as 812B, 4.1Ki, 2.0Mi; nothing as "".
func Size(n int64) string {
	switch {
	case n == 0:
		return ""
	case n < 1<<10:
		return fmt.Sprintf("%dB", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1fKi", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1fMi", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1fGi", float64(n)/(1<<30))
}
