package report

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFindingString(t *testing.T) {
	tests := []struct {
		finding Finding
		want    string
	}{
		{Finding{Line: 3, Column: 5, Path: "$.storage.files.0.path", Message: "m"}, "line 3:5: $.storage.files.0.path: m"},
		{Finding{Line: 3, Message: "m"}, "line 3: m"},
		{Finding{Path: "$", Message: "m", Hint: "h"}, "m"},
		{Finding{Path: "$.a", Message: "m"}, "$.a: m"},
	}
	for _, tt := range tests {
		if got := tt.finding.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestTidy(t *testing.T) {
	want := Report{
		{Severity: Error, Message: "no position"},
		{Severity: Error, Line: 1, Column: 2, Message: "a"},
		{Severity: Warning, Line: 1, Column: 2, Message: "a"},
		{Severity: Error, Line: 2, Column: 1, Message: "a"},
	}
	for range 20 {
		mixed := append(slices.Clone(want), want[1], want[3])
		rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if got := mixed.Tidy(); !slices.Equal(got, want) {
			t.Fatalf("got %v", got)
		}
	}
}

func TestTidyIsBounded(t *testing.T) {
	var r Report
	for i := range 500 {
		severity := Warning
		if i == 499 {
			severity = Error
		}
		r = append(r, Finding{Severity: severity, Line: i + 1, Message: "m"})
	}
	got := r.Tidy()
	if len(got) != MaxFindings+1 || !got.HasError() || got[MaxFindings].Message != "and 400 more findings" ||
		got[MaxFindings].Severity != Warning {
		t.Errorf("%d findings, the last %v", len(got), got[len(got)-1])
	}
	for i := range r {
		r[i].Severity = Error
	}
	if got = r.Tidy(); got[MaxFindings].Severity != Error || got[0].Line != 1 {
		t.Errorf("the last is %v", got[MaxFindings])
	}
}

func TestSummary(t *testing.T) {
	r := Report{{Severity: Warning, Message: "w"}, {Severity: Error, Line: 1, Message: "a"}, {Severity: Error, Line: 2,
		Message: "b"}}
	if got, want := r.Summary(), "line 1: a; line 2: b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := r.Warnings().Summary(); got != "" {
		t.Errorf("got %q without an error", got)
	}
	for _, size := range []int{1, 30, 499, 500, 501, 5000} {
		r = nil
		for range 1000 {
			r = append(r, Finding{Severity: Error, Message: strings.Repeat("ü", size)})
		}
		got := r.Summary()
		if len(got) > 1100 || !utf8.ValidString(got) || !strings.HasSuffix(got, "more errors") {
			t.Errorf("size %d: %d bytes, …%q", size, len(got), got[max(0, len(got)-30):])
		}
	}
}

func TestPosition(t *testing.T) {
	source := []byte("ab\nc\n")
	for offset, want := range map[int][2]int{-1: {1, 1}, 0: {1, 1}, 2: {1, 3}, 3: {2, 1}, 5: {3, 1}, 99: {3, 1}} {
		if line, column := Position(source, offset); line != want[0] || column != want[1] {
			t.Errorf("%d: %d:%d", offset, line, column)
		}
	}
}

func TestFprint(t *testing.T) {
	source := []byte("a: b\n\tkey: wörd x\r\nlast")
	tests := []struct {
		name    string
		finding Finding
		color   bool
		want    string
	}{
		{"no position", Finding{Severity: Error, Message: "m", Hint: "do it"}, false, "error: m\n --> f\nhint: do it\n"},
		{"no column", Finding{Severity: Warning, Path: "$.a", Line: 1, Message: "m"}, false,
			"warning: $.a: m\n --> f:1\n  |\n1 | a: b\n"},
		{"tab and umlaut", Finding{Severity: Error, Line: 2, Column: 7, Message: "m"}, false,
			"error: m\n --> f:2:7\n  |\n2 | \tkey: wörd x\n  | \t     ^^^^\n"},
		{"behind the end", Finding{Severity: Error, Line: 3, Column: 5, Message: "m"}, false,
			"error: m\n --> f:3:5\n  |\n3 | last\n  |     ^\n"},
		{"column out of range", Finding{Severity: Error, Line: 3, Column: 99, Message: "m"}, false,
			"error: m\n --> f:3:99\n  |\n3 | last\n"},
		{"line out of range", Finding{Severity: Error, Line: 99, Column: 1, Message: "m"}, false, "error: m\n --> f:99:1\n"},
		{"color", Finding{Severity: Error, Message: "m"}, true, "\x1b[1;31merror:\x1b[0m m\n \x1b[1;34m-->\x1b[0m f\n"},
		{"escape codes of the source are not printed", Finding{Severity: Error, Message: "\x1b[2J"}, false,
			"error: \ufffd[2J\n --> f\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := Fprint(&out, "f", source, Report{tt.finding}, tt.color); err != nil {
				t.Fatal(err)
			}
			if out.String() != tt.want {
				t.Errorf("got:\n%q\nwant:\n%q", out.String(), tt.want)
			}
		})
	}
}

func TestFprintCutsLongLines(t *testing.T) {
	source := []byte(strings.Repeat("x", 5000) + " here " + strings.Repeat("y", 5000))
	var out bytes.Buffer
	if err := Fprint(&out, "f", source, Report{{Severity: Error, Line: 1, Column: 5002, Message: "m"}},
		false); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines[3]) > 400 {
		t.Errorf("%d bytes in a line", len(lines[3]))
	}
	at := strings.Index(lines[4], "^")
	if got := []rune(lines[3])[at]; got != 'h' {
		t.Errorf("the caret stands under %q:\n%s", got, out.String())
	}
}
