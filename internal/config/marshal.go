package config

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Marshal writes the struct as a YAML file that [Load] reads back to the same values, with the help as comments.
// Text that is not UTF-8 has no YAML form and is an error.
func Marshal(cfg any) ([]byte, error) {
	s := newSchema(cfg)
	help := map[string]string{}
	for _, g := range s.groups {
		help[g.key] = g.help
	}
	var b bytes.Buffer
	var open []string // groups that the writer is in
	for _, f := range s.fields {
		if f.old && f.value.IsZero() {
			continue
		}
		path := strings.Split(f.key, ".")
		open = open[:commonPrefix(open, path)]
		for len(open) < len(path)-1 {
			open = append(open, path[len(open)])
			writeLine(&b, len(open)-1, help[strings.Join(open, ".")], open[len(open)-1]+":")
		}
		value, err := f.yaml()
		if err != nil {
			return nil, fmt.Errorf("%s: %v", f.key, err)
		}
		writeLine(&b, len(open), f.usage(), path[len(path)-1]+": "+value)
	}
	return b.Bytes(), nil
}

// commonPrefix returns the number of leading names that the open groups share with the path, whose last name is a leaf.
func commonPrefix(open, path []string) int {
	n := 0
	for n < len(open) && n < len(path)-1 && open[n] == path[n] {
		n++
	}
	return n
}

// writeLine writes a line at a depth, and above it a comment if there is any.
func writeLine(b *bytes.Buffer, depth int, comment, line string) {
	indent := strings.Repeat("  ", depth)
	if comment != "" {
		fmt.Fprintf(b, "%s# %s\n", indent, strings.ReplaceAll(comment, "\n", "\n"+indent+"# "))
	}
	fmt.Fprintf(b, "%s%s\n", indent, line)
}

// usage returns the help, with the allowed values if the type does not imply them.
func (f *field) usage() string {
	var takes string
	switch {
	case f.enum != nil:
		takes = "one of " + f.choices()
	case f.element() != unsigned || f.maxText != "": // "from 0 up" says nothing
		takes = strings.TrimSpace(f.limits())
	}
	switch {
	case takes == "":
		return f.help
	case f.help == "":
		return takes
	}
	return f.help + " (" + takes + ")"
}

func (f *field) yaml() (string, error) {
	if kindOf(f.value.Type()) != list {
		return f.yamlScalar(f.text())
	}
	items := f.items()
	for i, item := range items {
		quoted, err := f.yamlScalar(item)
		if err != nil {
			return "", err
		}
		items[i] = quoted
	}
	return "[" + strings.Join(items, ", ") + "]", nil
}

// plain matches text that every YAML reader takes for a string, once the words below are excluded.
var plain = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./+-]*$`)

var notPlain = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)

func (f *field) yamlScalar(text string) (string, error) {
	switch {
	case f.element() != str || plain.MatchString(text) && !notPlain.MatchString(text):
		return text, nil
	case !utf8.ValidString(text):
		return "", fmt.Errorf("found %q, want UTF-8", text)
	}
	return strconv.Quote(text), nil // every escape of Go means the same in a double-quoted YAML scalar (YAML 1.2, §5.7)
}
