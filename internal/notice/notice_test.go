package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFresh checks that NOTICE and the licenses in the program match the modules of the program. To update them, run
//
//	go generate ./...
func TestFresh(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run go generate in internal/notice", name)
		}
	}
}

// TestLinkedOnEverySystem checks that a module that is in the program on only one system is listed, and that one that
// only tests use is not.
func TestLinkedOnEverySystem(t *testing.T) {
	modules, err := linked()
	if err != nil {
		t.Fatal(err)
	}
	listed := func(path string) bool {
		return slices.ContainsFunc(modules, func(m module) bool { return m.path == path })
	}
	for path, want := range map[string]bool{
		"github.com/inconshreveable/mousetrap": true, // a dependency of cobra on Windows
		"codeberg.org/go-fonts/liberation":     true,
		"pgregory.net/rapid":                   false,
		"github.com/google/licensecheck":       false,
		"github.com/hippo-ssm/hippo":           false,
	} {
		if listed(path) != want {
			t.Errorf("%s: found %v, want %v", path, listed(path), want)
		}
	}
}

const mit = `Copyright (c) 2026 Somebody

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files
(the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify,
merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES
OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE
LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`

// TestRead checks that the files of the folders above a linked package count, that those of others do not, and that a
// license that is not recognized or not allowed is an error.
func TestRead(t *testing.T) {
	apache, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string // licenses and files, or a part of the error
	}{
		"one":   {map[string]string{"LICENSE": mit}, "MIT: LICENSE"},
		"spelt": {map[string]string{"Licence.md": mit}, "MIT: Licence.md"},
		"of the folder": {map[string]string{"LICENSE": mit, "a/LICENSE.txt": string(apache)},
			"Apache-2.0 MIT: LICENSE a/LICENSE.txt"},
		"of another": {map[string]string{"LICENSE": mit, "c/LICENSE": string(apache)}, "MIT: LICENSE"},
		"notice":     {map[string]string{"LICENSE": mit, "NOTICE": mit}, "MIT: LICENSE NOTICE"},
		"others'": {map[string]string{"LICENSE": mit, "THIRD_PARTY_LICENSES/X": mit},
			"MIT: LICENSE THIRD_PARTY_LICENSES/X"},
		"code": {map[string]string{"LICENSE": mit, "license.go": "package x"}, "MIT: LICENSE"},
		"none": {map[string]string{"README": mit}, "found no licence"},
		"words": {map[string]string{"LICENSE": mit, "a/b/COPYING": "Ask me."},
			"found no licence that is known in a/b/COPYING"},
	} {
		dir := t.TempDir()
		for file, body := range c.files {
			path := filepath.Join(dir, filepath.FromSlash(file))
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(body), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o777); err != nil {
			t.Fatal(err)
		}
		m := module{path: "example.org/m", version: "v1", dir: dir, packages: []string{filepath.Join("a", "b")}}
		if err := m.read(); err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: found the error %q, want one with %q", name, err, c.want)
			}
			continue
		}
		var files []string
		for _, f := range m.texts {
			files = append(files, f.name)
		}
		if got := strings.Join(m.licenses, " ") + ": " + strings.Join(files, " "); got != c.want {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
	m := module{path: "example.org/m", version: "v1", licenses: []string{"GPL-3.0-only"}}
	if err := m.check(); err == nil || !strings.Contains(err.Error(), "found the licence GPL-3.0-only") {
		t.Errorf("found %v for a licence that is not allowed", err)
	}
}
