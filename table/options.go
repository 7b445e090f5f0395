package table

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options say how data is read. What they leave open is found out from the data.
type Options struct {
	Format    string `json:"format" help:"of the data: csv, jsonl, npy, wav, ...; empty: by the names of files"`
	Header    string `json:"header" enum:"auto,yes,no" help:"whether the first line names the columns"`
	Separator string `json:"separator" help:"between cells: a character, tab or space; empty: found out"`
	Decimal   string `json:"decimal" enum:"auto,point,comma" help:"how numbers are written: 1.5 or 1,5"`
	Encoding  string `json:"encoding" enum:"auto,utf-8,utf-16,windows-1252" help:"of text files"`
	// Missing are further texts of a value that is missing.
	Missing []string `json:"missing" help:"texts of a missing value, besides empty, NA, NaN, null, ? and such"`

	TimeFormat string   `json:"time_format" help:"of times, as Go writes it: 02.01.2006 15:04; empty: found out"`
	Zone       string   `json:"zone" help:"time zone of times that name none, such as Europe/Berlin; empty: UTC"`
	Categories []string `json:"categories" help:"columns of numbers that stand for categories"`
	Wide       bool     `json:"wide" help:"each row is a sequence: its columns of numbers are its steps"`

	// Unread are columns that nobody asks for: a format that can need not read them. They are there all the same.
	Unread []string        `json:"-"`
	wanted map[string]bool // in lower case; nil for all
}

// DefaultOptions leave everything to be found out.
func DefaultOptions() Options { return Options{Header: "auto", Decimal: "auto", Encoding: "auto"} }

// reads reports whether the values of a column are asked for.
func (o *Options) reads(name string) bool {
	if o.wanted != nil {
		return o.wanted[strings.ToLower(name)]
	}
	return !slices.Contains(o.Unread, name)
}

// separator is the character that Separator names, 0 for none.
func (o *Options) separator() (rune, error) {
	switch s := []rune(o.Separator); {
	case o.Separator == "":
		return 0, nil
	case strings.EqualFold(o.Separator, "tab") || o.Separator == `\t`:
		return '\t', nil
	case strings.EqualFold(o.Separator, "space"):
		return ' ', nil
	case len(s) == 1 && !strings.ContainsRune("\"\r\n\uFFFD", s[0]):
		return s[0], nil
	}
	return 0, fmt.Errorf("separator: found %.20q, want one character, tab or space", o.Separator)
}

// zone is the time zone of times that name none.
func (o *Options) zone() (*time.Location, error) {
	zone, err := time.LoadLocation(o.Zone)
	if err != nil {
		return nil, fmt.Errorf("zone: found %.40q, want the name of a time zone such as Europe/Berlin", o.Zone)
	}
	return zone, nil
}

// missing are texts that stand for a missing value, in lower case.
var missing = []string{"", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", "?", "missing"}

// isMissing reports whether a text without spaces around it stands for a missing value.
func (o *Options) isMissing(text string) bool {
	return standsForMissing(text) || len(o.Missing) > 0 && slices.Contains(o.Missing, text)
}

// standsForMissing reports whether a text is one of missing.
func standsForMissing(text string) bool {
	switch {
	case text == "":
		return true
	case len(text) > len("missing") || text[0] >= '0' && text[0] <= '9':
		return false
	}
	return slices.Contains(missing, strings.ToLower(text))
}
