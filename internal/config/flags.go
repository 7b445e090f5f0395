package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// Annotations of the flags that [Register] adds.
const (
	annotation = "hippo_config_group"  // the title of its group
	choices    = "hippo_config_choice" // the values of an enum
)

// Register adds a flag for every leaf of the struct, with its value as the default. A flag only keeps its text when
// parsed: [Load] reads it, so that flags are stronger than the file and all problems are reported together. When a flag
// is given twice, the last one counts, except that a list gets the items of both. A bool needs no value.
func Register(fs *pflag.FlagSet, cfg any) {
	s := newSchema(cfg)
	title := map[string]string{}
	for _, g := range s.groups {
		title[g.key] = strings.TrimSuffix(g.key+": "+g.help, ": ")
	}
	for _, f := range s.fields {
		value := &flagValue{text: f.text(), kind: f.flagType(), want: f.want(), list: kindOf(f.value.Type()) == list}
		flag := fs.VarPF(value, f.key, "", f.usage())
		flag.Hidden = f.old
		if f.element() == boolean {
			flag.NoOptDefVal = "true"
		}
		top, _, _ := strings.Cut(f.key, ".")
		flag.Annotations = map[string][]string{annotation: {title[top]}, choices: f.enum}
	}
}

// Choices returns the values that a flag of [Register] can have, or nil for any, and whether it is one of those flags.
func Choices(flag *pflag.Flag) (values []string, ok bool) {
	values, ok = flag.Annotations[choices]
	return values, ok
}

// flagValue is a flag's text, unread. It implements [pflag.Value].
type flagValue struct {
	text, kind, want string

	list  bool
	given bool // the text is from the command line, no longer the default
}

func (v *flagValue) String() string { return v.text }
func (v *flagValue) Type() string   { return v.kind }

func (v *flagValue) Set(text string) error {
	if v.list && v.given {
		text = v.text + "," + text
	}
	v.text, v.given = text, true
	return nil
}

// flagType names the kind of value in help texts, with the words of pflag.
func (f *field) flagType() string {
	name := map[kind]string{boolean: "bool", signed: "int", unsigned: "int", float: "float", duration: "duration",
		str: "string"}[f.element()]
	if kindOf(f.value.Type()) == list {
		name += "s"
	}
	return name
}

// Usages returns the help text of all flags, wrapped to a number of columns (0: not wrapped): first the flags that
// [Register] did not add or that are in no group, then group by group in the order of declaration.
func Usages(fs *pflag.FlagSet, columns int) string {
	titles := []string{""}
	groups := map[string]*pflag.FlagSet{}
	eachFlag(fs, func(flag *pflag.Flag) {
		title := strings.Join(flag.Annotations[annotation], "")
		if groups[title] == nil {
			groups[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
			groups[title].SortFlags = false
			if title != "" {
				titles = append(titles, title)
			}
		}
		groups[title].AddFlag(flag)
	})
	var b strings.Builder
	for _, title := range titles {
		group := groups[title]
		if group == nil {
			continue
		}
		if title != "" {
			fmt.Fprintf(&b, "\n%s\n", title)
		}
		b.WriteString(group.FlagUsagesWrapped(columns))
	}
	return b.String()
}

// eachFlag visits flags in the order in which they were registered.
func eachFlag(fs *pflag.FlagSet, visit func(*pflag.Flag)) {
	sorted := fs.SortFlags
	fs.SortFlags = false
	fs.VisitAll(visit)
	fs.SortFlags = sorted
}

// Diff lists the leaves in which two structs of one type differ, as "key: a -> b".
func Diff(a, b any) []string {
	var lines []string
	eachDifference(a, b, func(x, y *field) {
		lines = append(lines, fmt.Sprintf("%s: %s -> %s", x.key, x.diffText(), y.diffText()))
	})
	return lines
}

func (f *field) diffText() string {
	if kindOf(f.value.Type()) == list {
		return "[" + f.text() + "]"
	}
	if f.element() == str && f.text() == "" {
		return `""`
	}
	return f.text()
}

// Flags returns the fewest flags that turn defaults into cfg, each quoted for a POSIX shell: "--model.d_model 256".
func Flags(cfg, defaults any) []string {
	var flags []string
	eachDifference(cfg, defaults, func(f, _ *field) {
		switch {
		case f.element() != boolean:
			flags = append(flags, "--"+f.key+" "+Quote(f.text()))
		case f.value.Bool():
			flags = append(flags, "--"+f.key)
		default:
			flags = append(flags, "--"+f.key+"=false")
		}
	})
	return flags
}

func eachDifference(a, b any, visit func(x, y *field)) {
	x, y := newSchema(a), newSchema(b)
	if t, u := reflect.Indirect(reflect.ValueOf(a)).Type(), reflect.Indirect(reflect.ValueOf(b)).Type(); t != u {
		panic(fmt.Sprintf("config: compared %v with %v", t, u))
	}
	for i, f := range x.fields {
		if f.text() != y.fields[i].text() {
			visit(f, y.fields[i])
		}
	}
}

// safeInShell matches words that a shell does not change.
var safeInShell = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+=-]+$`)

// Quote quotes a word for a POSIX shell if necessary.
func Quote(word string) string {
	if safeInShell.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
