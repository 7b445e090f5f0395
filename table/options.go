package table

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options holds the options for reading data. Options that are not set are detected from the data.
type Options struct {
	Format    string `json:"format" help:"format of the data: csv, jsonl, npy, wav, ...; empty: by extension"`
	Header    string `json:"header" enum:"auto,yes,no" help:"whether the first line names the columns"`
	Separator string `json:"separator" help:"separator of cells: a character, tab or space; empty: automatic"`
	Decimal   string `json:"decimal" enum:"auto,point,comma" help:"sign before fractions: 1,062.5 or 1.062,5"`
	Encoding  string `json:"encoding" enum:"auto,utf-8,utf-16,windows-1252" help:"encoding of text files"`
	// Missing lists additional texts that mean a missing value.
	Missing []string `json:"missing" help:"texts of a missing value, besides empty, NA, NaN, null, ? and so on"`

	TimeFormat string   `json:"time_format" help:"layout of times as in Go: 02.01.2006 15:04; empty: automatic"`
	Zone       string   `json:"zone" help:"time zone of times that name none, such as Europe/Berlin; empty: UTC"`
	Categories []string `json:"categories" help:"columns of numbers to read as categories"`
	Wide       bool     `json:"wide" help:"each row is a sequence with its numbers as steps"`

	// Spectrum converts recordings to frames. If it is nil, rows are samples.
	Spectrum *Spectrum `json:"-"`
	// Unread lists columns whose values are not needed: a format may skip reading them. They are still listed.
	Unread []string        `json:"-"`
	Rate   int             `json:"-"` // common rate of recordings after resampling; 0: the most frequent rate
	mono   bool            // recordings are mixed down
	wanted map[string]bool // needed columns, in lower case; nil for all
}

// DefaultOptions returns options with which everything is detected from the data.
func DefaultOptions() Options { return Options{Header: "auto", Decimal: "auto", Encoding: "auto"} }

// reads reports whether the values of a column are needed.
func (o *Options) reads(name string) bool {
	if o.wanted != nil {
		return o.wanted[strings.ToLower(name)]
	}
	return !slices.Contains(o.Unread, name)
}

// separator returns the character for the Separator option, or 0 if it is not set.
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

// zone returns the time zone of times without a zone.
func (o *Options) zone() (*time.Location, error) {
	zone, err := time.LoadLocation(o.Zone)
	if err != nil {
		return nil, fmt.Errorf("zone: found %.40q, want the name of a time zone such as Europe/Berlin", o.Zone)
	}
	return zone, nil
}

// missing lists the texts that mean a missing value, in lower case.
var missing = []string{"", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", "?", "missing"}

// isMissing reports whether a text without spaces around it means a missing value.
func (o *Options) isMissing(text string) bool {
	return standsForMissing(text) || len(o.Missing) > 0 && slices.Contains(o.Missing, text)
}

// standsForMissing reports whether a text is in missing, in any case.
func standsForMissing(text string) bool {
	switch {
	case text == "":
		return true
	case len(text) > len("missing") || text[0] >= '0' && text[0] <= '9':
		return false
	}
	return slices.Contains(missing, strings.ToLower(text))
}
