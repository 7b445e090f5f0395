package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// heading begins the generated part of NOTICE, which ends with the file.
const heading = "\n5. Modules in the program\n"

const aboutModules = `
A hippo program contains Go's own library and packages of the modules below, under these licences. Their full texts are
in internal/licenses/licenses.txt; hippo version --licenses prints them. internal/notice writes this list.

`

// withModules returns NOTICE with its list of modules replaced.
func withModules(notice []byte, modules []module) ([]byte, error) {
	before, _, found := bytes.Cut(notice, []byte(heading))
	if !found {
		return nil, fmt.Errorf("%s: found no heading %q", noticeFile, strings.TrimSpace(heading))
	}
	var b bytes.Buffer
	b.Write(before)
	b.WriteString(heading + aboutModules)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, m := range modules {
		version := m.version
		if version == "" {
			version = "as built with"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", m.path, version, strings.Join(m.licenses, ", "))
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// licenses returns the output of hippo version --licenses: NOTICE, hippo's own license and the modules' licenses, each
// text once.
func licenses(ours, notice []byte, modules []module) []byte {
	var b bytes.Buffer
	b.Write(notice)
	section := func(title, body string) {
		line := strings.Repeat("=", 80)
		fmt.Fprintf(&b, "\n\n%s\n%s\n%s\n\n%s", line, title, line, body)
	}
	section("hippo: LICENSE", plain(ours))
	var bodies []string
	titles := map[string][]string{}
	for _, m := range modules {
		for _, t := range m.texts {
			if !slices.Contains(bodies, t.body) {
				bodies = append(bodies, t.body)
			}
			titles[t.body] = append(titles[t.body], strings.TrimSpace(m.path+" "+m.version)+": "+t.name)
		}
	}
	for _, body := range bodies {
		section(strings.Join(titles[body], "\n"), body)
	}
	return b.Bytes()
}
