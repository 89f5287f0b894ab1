// Command vulncheck looks for known vulnerabilities in what the given packages call
// (default: all of the module): it runs govulncheck with the database of GOVULNDB, or
// https://vuln.go.dev. Where no database can be reached it says so in one line, and
// that is no failure: a machine without the internet can run make lint.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	defaultDatabase = "https://vuln.go.dev"
	// reachTimeout is how long the database may take to answer at all.
	reachTimeout = 10 * time.Second
	// checkTimeout bounds the check itself, downloads included.
	checkTimeout = 20 * time.Minute
)

func main() {
	if err := run(os.Stdout, os.Getenv("GOVULNDB"), os.Args[1:]...); err != nil {
		fmt.Fprintln(os.Stderr, "error: vulncheck:", err)
		os.Exit(1)
	}
}

// run checks packages against a database; its error is a vulnerability that they
// call, or a check that cannot be made for another reason than the database.
func run(out io.Writer, database string, packages ...string) error {
	if database == "" {
		database = defaultDatabase
	}
	if err := reach(database); err != nil {
		fmt.Fprintln(out, "vulncheck: skipped, there is no vulnerability database here:", err)
		return nil
	}
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	check := exec.CommandContext(ctx, "go", append([]string{"tool", "govulncheck", "-db", database}, packages...)...)
	check.Stdout, check.Stderr = out, out
	return check.Run()
}

// reach asks a database for the index that govulncheck begins with.
func reach(database string) error {
	u, err := url.Parse(database)
	if err != nil {
		return fmt.Errorf("GOVULNDB is not a URL")
	}
	if u.Scheme == "file" {
		_, err := os.Stat(filepath.Join(filepath.FromSlash(u.Path), "index", "modules.json"))
		return err
	}
	client := &http.Client{Timeout: reachTimeout}
	resp, err := client.Head(u.JoinPath("index", "modules.json.gz").String())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", u.Redacted(), resp.Status)
	}
	return nil
}
