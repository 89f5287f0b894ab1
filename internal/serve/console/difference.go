package console

import (
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/aymanbagabas/go-udiff/lcs"
)

// contextLines is how many lines are shown around a change, and maxDiffLines how many of a difference.
const contextLines, maxDiffLines = 3, 400

// difference is that of two texts, line by line.
type difference struct {
	Title string
	Note  string // what is not shown
	Lines []diffLine
}

// differenceOf compares two texts; nil: they are equal.
func differenceOf(title, before, after string) []difference {
	unified, err := udiff.ToUnifiedDiff("", "", before, lineEdits(before, after), contextLines)
	if before == after || err != nil { // which the edits of lines are not
		return nil
	}
	out := difference{Title: title}
	for _, hunk := range unified.Hunks {
		out.Lines = append(out.Lines, diffLine{"quiet", fmt.Sprintf("@ line %d", hunk.FromLine)})
		for _, line := range hunk.Lines {
			if len(out.Lines) > maxDiffLines {
				break
			}
			text, ended := strings.CutSuffix(line.Content, "\n")
			if !ended {
				text += " (without a line end)"
			}
			sign := map[udiff.OpKind]byte{udiff.Delete: '-', udiff.Insert: '+', udiff.Equal: ' '}[line.Kind]
			out.Lines = append(out.Lines, diffLine{diffClasses[sign], string(sign) + " " + visibleLines(text)})
		}
	}
	if len(out.Lines) > maxDiffLines {
		out.Lines = out.Lines[:maxDiffLines]
		out.Note = fmt.Sprintf("The first %d lines of the difference are shown.", maxDiffLines)
	}
	return []difference{out}
}

// lineEdits returns the edits that make after of before. It compares lines as wholes: the library, which compares
// characters, takes too long for large texts.
func lineEdits(before, after string) (edits []udiff.Edit) {
	numbers := map[string]rune{}
	was, offsets := numbered(numbers, before)
	is, newOffsets := numbered(numbers, after)
	for _, d := range lcs.DiffRunes(was, is) {
		edits = append(edits, udiff.Edit{
			Start: offsets[d.Start], End: offsets[d.End], New: after[newOffsets[d.ReplStart]:newOffsets[d.ReplEnd]],
		})
	}
	return edits
}

// numbered returns the lines of a text as numbers, equal ones as the same number, and the offsets between them.
func numbered(numbers map[string]rune, text string) (lines []rune, offsets []int) {
	at := 0
	for line := range strings.Lines(text) {
		if _, ok := numbers[line]; !ok {
			numbers[line] = rune(len(numbers))
		}
		lines, offsets = append(lines, numbers[line]), append(offsets, at)
		at += len(line)
	}
	return lines, append(offsets, at)
}
