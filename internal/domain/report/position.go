package report

import "bytes"

// Position returns the line and column, both from 1, of a byte offset in source. An
// offset outside of the source is moved to its nearest end.
func Position(source []byte, offset int) (line, column int) {
	before := source[:min(max(offset, 0), len(source))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte{'\n'}) + 1, len(before) - start + 1
}
