// Command genman writes what packages bring beside the program, from the program's own commands:
// a manual page of each command, and completions for shells.
//
//	genman VERSION DIR
//
// The date of the pages is SOURCE_DATE_EPOCH, or the start of 1970.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"glowplug/internal/cli"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: genman VERSION DIR")
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		seconds = 0
	}
	if err := write(os.Args[2], os.Args[1], time.Unix(seconds, 0).UTC()); err != nil {
		log.Fatal("error: ", err)
	}
}

// write writes the pages into man1 of a folder, and the completions into completions.
func write(dir, version string, date time.Time) error {
	root := cli.Root()
	files := map[string][]byte{}
	for name, text := range pages(root, version, date) {
		packed, err := pack(text)
		if err != nil {
			return err
		}
		files[filepath.Join("man1", name+".1.gz")] = packed
	}
	for name, generate := range map[string]func(*bytes.Buffer) error{
		"glowplug":      func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) },
		"_glowplug":     func(b *bytes.Buffer) error { return root.GenZshCompletion(b) },
		"glowplug.fish": func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) },
	} {
		var text bytes.Buffer
		if err := generate(&text); err != nil {
			return fmt.Errorf("completion %s: %w", name, err)
		}
		files[filepath.Join("completions", name)] = text.Bytes()
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pack compresses a page as gzip -n does: without name and time.
func pack(text string) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write([]byte(text)); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// pages returns the page of each command that the help lists, by its name.
func pages(root *cobra.Command, version string, date time.Time) map[string]string {
	all := map[string]string{}
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "help" {
			return
		}
		p := page{cmd: cmd}
		p.write(version, date)
		all[nameOf(cmd)] = p.text.String()
		if cmd.Name() == "completion" {
			return // its page names the shells
		}
		for _, below := range cmd.Commands() {
			add(below)
		}
	}
	add(root)
	return all
}
