package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// targets are the systems and processors for which hippo is released.
var targets = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// module is a module some of whose packages are in a hippo program.
type module struct {
	path, version string // version is "" for Go's own library, whose license does not depend on it
	dir           string
	packages      []string // folders of packages, relative to dir; "." for dir itself

	licenses []string // their names in SPDX's list, sorted
	texts    []text
}

// text is a file that must be distributed with the program.
type text struct{ name, body string }

// linked returns the modules of ./cmd/hippo on all targets, sorted by their paths, with Go's own library first.
func linked() ([]module, error) {
	found := map[string]*module{}
	for _, target := range targets {
		lines, err := packages(target)
		if err != nil {
			return nil, err
		}
		for _, fields := range lines {
			path, version, dir, pkg := fields[0], fields[1], fields[2], fields[3]
			if version == "" { // hippo's own packages
				continue
			}
			if dir == "" {
				return nil, fmt.Errorf("%s %s: found no source in the module cache, want it there (go mod download)",
					path, version)
			}
			rel, err := filepath.Rel(dir, pkg)
			if err != nil {
				return nil, err
			}
			m := found[path]
			if m == nil {
				m = &module{path: path, version: version, dir: dir}
				found[path] = m
			}
			if !slices.Contains(m.packages, rel) {
				m.packages = append(m.packages, rel)
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("found no modules in ./cmd/hippo")
	}
	all := []module{{path: "Go's standard library and runtime", dir: goroot(), packages: []string{"."}}}
	for _, m := range found {
		all = append(all, *m)
	}
	all = append(all, embedded...)
	slices.SortFunc(all[1:], func(a, b module) int { return cmp.Compare(a.path, b.path) })
	return all, nil
}

// embedded lists files in the repository that others have written and that are in the program, but are not Go packages.
var embedded = []module{
	{
		path: "uPlot (github.com/leeoniya/uPlot)", version: "v1.6.32", packages: []string{"."},
		dir: filepath.Join(root, "web", "uplot"),
	},
	{
		path: "KaTeX (github.com/KaTeX/KaTeX)", version: "v0.19.1", packages: []string{"fonts"},
		dir: filepath.Join(root, "web", "kept", "katex"),
	},
	{
		path: "highlight.js (github.com/highlightjs/highlight.js)", version: "v11.12.0", packages: []string{"."},
		dir: filepath.Join(root, "web", "kept", "highlight"),
	},
}

// packages lists the packages of a program that are in a module: the module's path, version and folder, and the
// package's folder.
func packages(target string) ([][]string, error) {
	system, arch, _ := strings.Cut(target, "/")
	format := "{{with .Module}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}"
	cmd := exec.Command("go", "list", "-mod=readonly", "-trimpath=false", "-tags=mpi,gpu", "-deps", "-f", format,
		"./cmd/hippo")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0", "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list for %s: %w", target, err)
	}
	var lines [][]string
	for scan := bufio.NewScanner(bytes.NewReader(out)); scan.Scan(); {
		if line := scan.Text(); line != "" {
			lines = append(lines, strings.Split(line, "\t"))
		}
	}
	return lines, nil
}

// goroot returns the folder of the Go installation that builds.
func goroot() string {
	if out, err := exec.Command("go", "env", "GOROOT").Output(); err == nil {
		return strings.TrimSpace(string(out))
	}
	return runtime.GOROOT()
}
