package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const lockFile = "lock.json"

// lockedPackage is a package of npm. Integrity is npm's: "sha512-" and the sum of the tarball in base64.
type lockedPackage struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Integrity string `json:"integrity"`
}

// imported finds the packages that entry.js names.
var imported = regexp.MustCompile(`from "([^"]+)"`)

func readLock() ([]lockedPackage, error) {
	content, err := os.ReadFile(lockFile)
	if err != nil {
		return nil, err
	}
	var packages []lockedPackage
	if err := json.Unmarshal(content, &packages); err != nil {
		return nil, fmt.Errorf("%s: %w", lockFile, err)
	}
	return packages, nil
}

// updateLock lets npm choose the newest versions and writes them to lock.json. No package is installed.
func updateLock() error {
	source, err := os.ReadFile(entry)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "codemirror-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	args := []string{"install", "--package-lock-only", "--ignore-scripts", "--no-fund", "--prefix", dir}
	for _, match := range imported.FindAllStringSubmatch(string(source), -1) {
		args = append(args, match[1])
	}
	if err := npm(args...); err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return err
	}
	packages, err := fromNPM(content)
	if err != nil {
		return err
	}
	content, err = json.MarshalIndent(packages, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(lockFile, append(content, '\n'), 0o644)
}

// fromNPM returns the packages of npm's package-lock.json.
func fromNPM(content []byte) ([]lockedPackage, error) {
	var lock struct {
		Packages map[string]lockedPackage `json:"packages"`
	}
	if err := json.Unmarshal(content, &lock); err != nil {
		return nil, fmt.Errorf("npm's lock file: %w", err)
	}
	delete(lock.Packages, "") // the folder itself
	for path, p := range lock.Packages {
		name, ok := strings.CutPrefix(path, "node_modules/")
		if !ok || strings.Contains(name, "node_modules/") {
			return nil, fmt.Errorf("two versions of one package are needed (%s): the bundle would have it twice, "+
				"and CodeMirror does not work so; wait for the next release", path)
		}
		p.Name = name
		lock.Packages[path] = p
	}
	return slices.SortedFunc(maps.Values(lock.Packages), func(a, b lockedPackage) int {
		return cmp.Compare(a.Name, b.Name)
	}), nil
}

// npm runs npm with its own configuration, so that registries, mirrors and proxies are those of the machine.
func npm(args ...string) error {
	cmd := exec.Command("npm", append(args, "--loglevel=error")...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("npm %s: %w: it has to be installed and to reach a registry", args[0], err)
	}
	return nil
}
