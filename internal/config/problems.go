package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/internal/brief"
)

// Problems collects problems, one line each, so that all can be reported at once. The zero value is ready for use. As
// an error it prints as many of its lines as can be read, and if there is more than one, under a heading that counts
// them.
type Problems []string

// Addf adds the line "key: message". The key is the place: a path, for example model.d_model, a file and position, or a
// flag.
func (p *Problems) Addf(key, format string, args ...any) {
	*p = append(*p, brief.Line(key+": "+fmt.Sprintf(format, args...)))
}

// OneOf adds a problem if value is not in want.
func (p *Problems) OneOf(key, value string, want []string) {
	if !slices.Contains(want, value) {
		p.Addf(key, "found %q, want one of %q", value, want)
	}
}

// AtLeast adds a problem if n is less than least.
func (p *Problems) AtLeast(key string, n, least int) {
	if n < least {
		p.Addf(key, "found %d, want at least %d", n, least)
	}
}

// Add adds the lines of err if it is a Problems, its message otherwise, and nothing if it is nil.
func (p *Problems) Add(err error) {
	var more Problems
	switch {
	case err == nil:
	case errors.As(err, &more):
		*p = append(*p, more...)
	default:
		*p = append(*p, brief.Error(err).Error())
	}
}

// AddTo adds the lines of err as Add does, each with a name before it: "name: line".
func (p *Problems) AddTo(name string, err error) {
	var more Problems
	more.Add(err)
	for _, line := range more {
		*p = append(*p, name+": "+line)
	}
}

// Err returns p as an error, or nil if there is no problem.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Error implements error.
func (p Problems) Error() string {
	if len(p) == 1 {
		return p[0]
	}
	return fmt.Sprintf("%d problems:\n  %s", len(p), brief.List(p, "\n  "))
}

// AddUnder adds the lines of err as Add does, each with a prefix.
func (p *Problems) AddUnder(prefix string, err error) {
	var inner Problems
	inner.Add(err)
	for _, line := range inner {
		*p = append(*p, prefix+line)
	}
}
