package console

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// The package of npm with axe, which finds what people with impairments cannot see, read or reach.
const (
	axePackage   = "axe-core"
	axeVersion   = "4.14.1"
	axeIntegrity = "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
	axeFile      = "package/axe.min.js"

	// axePatience bounds a run of axe; 5,000 cells took 12 s.
	axePatience = time.Minute
)

// violation is a rule of axe that a page breaks.
type violation struct {
	Rule   string   `json:"rule"`
	Impact string   `json:"impact"`
	Help   string   `json:"help"`
	Nodes  []string `json:"nodes"`
}

// axe fails the test for each serious or critical violation of the page, light and dark.
func (tab *tab) axe() {
	for _, scheme := range []string{"light", "dark"} {
		tab.t.Run("axe, "+scheme, func(t *testing.T) {
			tab := tab.in(t)
			tab.scheme(scheme)
			for _, v := range tab.violations() {
				t.Errorf("%s (%s): %s\n%s", v.Rule, v.Impact, v.Help,
					strings.Join(v.Nodes[:min(3, len(v.Nodes))], "\n"))
			}
		})
	}
}

// violations runs axe. Without preload: false it makes a <style>, which the Content-Security-Policy refuses.
func (tab *tab) violations() []violation {
	tab.t.Helper()
	source, err := axeSource()
	if errors.Is(err, exec.ErrNotFound) {
		tab.t.Skipf("needs npm, to fetch %s, which is not installed", axePackage)
	}
	if err != nil {
		tab.t.Fatalf("%s: %v", axePackage, err)
	}
	const run = `axe.run(document, {preload: false, resultTypes: ["violations"]}).then(result => result.violations
		.filter(v => v.impact == "serious" || v.impact == "critical")
		.map(v => ({rule: v.id, impact: v.impact, help: v.help,
			nodes: v.nodes.map(n => n.target.join(" ") + ": " + n.failureSummary)})))`
	ctx, cancel := context.WithTimeout(tab.ctx, axePatience)
	defer cancel()
	err = chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](source))
	var found []violation
	if err == nil {
		found, err = chromedp.Run(ctx, chromedp.Evaluate[[]violation](run, chromedp.EvalAwaitPromise))
	}
	if err != nil {
		tab.t.Fatalf("running %s: %v", axePackage, err)
	}
	return found
}

// axeSource is the script, from the user's cache; npm fetches what is not there.
var axeSource = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return cachedAxe(filepath.Join(cache, "glowplug-console"))
})

func cachedAxe(dir string) (string, error) {
	path := filepath.Join(dir, axePackage+"-"+axeVersion+".tgz") // the name that npm pack gives
	tarball, err := os.ReadFile(path)
	if err != nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		out, err := exec.Command("npm", "pack", "--ignore-scripts", "--pack-destination", dir,
			axePackage+"@"+axeVersion).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("npm pack: %w: it has to reach a registry, or %s has to be there\n%s", err, path, out)
		}
		if tarball, err = os.ReadFile(path); err != nil {
			return "", err
		}
	}
	sum := sha512.Sum512(tarball)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != axeIntegrity {
		return "", fmt.Errorf("%s has the integrity %s, not %s: remove it if it is only damaged", path, got, axeIntegrity)
	}
	return fileOf(tarball, axeFile)
}

// fileOf returns a file of a tarball.
func fileOf(tarball []byte, name string) (string, error) {
	zipped, err := gzip.NewReader(bytes.NewReader(tarball))
	if err != nil {
		return "", err
	}
	files := tar.NewReader(zipped)
	for {
		file, err := files.Next()
		if err != nil {
			return "", fmt.Errorf("looking for %s: %w", name, err)
		}
		if file.Name == name {
			content, err := io.ReadAll(files)
			return string(content), err
		}
	}
}
