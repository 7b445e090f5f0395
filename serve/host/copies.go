package host

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/hippo-ssm/hippo/serve/request"
)

// Limits of additional names of models.
const (
	maxCopies = 1000
	MaxName   = 200
)

// Copy gives a model another name, until the server stops or the name is removed. It does not copy weights.
func (r *Host) Copy(ctx context.Context, from, to string) error {
	of, err := r.Find(ctx, from)
	if err != nil {
		return err
	}
	all, err := r.All(ctx)
	if err != nil {
		return err
	}
	to = PlainName(to)
	found, there := named(all, to)
	there = there && found.CopyOf == ""
	r.mu.Lock()
	defer r.mu.Unlock()
	var ch request.Checks
	ch.That(IsName(to), "destination", "found %.100q, want a name of 1 to %d bytes without spaces", to, MaxName)
	ch.That(len(r.copies) < maxCopies || r.copies[to] != "", "destination", "found %d copies of names, want at most %d",
		len(r.copies), maxCopies)
	if ch.Err == nil && there || r.Other(to) != nil {
		return &request.Error{
			Status: http.StatusConflict, Param: "destination",
			Message: fmt.Sprintf("destination: found %.100q, which is a model, want another name", to),
		}
	}
	if ch.Err != nil {
		return ch.Err
	}
	if r.copies == nil {
		r.copies = map[string]string{}
	}
	r.copies[to] = of.Name
	return nil
}

// IsName reports whether a client may give a model this name. A name has no spaces and no invisible characters.
func IsName(text string) bool {
	return text != "" && len(text) <= MaxName && !strings.ContainsFunc(text, func(c rune) bool {
		return unicode.IsSpace(c) || !unicode.IsGraphic(c) || c == unicode.ReplacementChar
	})
}

// RemoveCopy removes an additional name of a model, and reports whether it existed.
func (r *Host) RemoveCopy(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.copies[PlainName(name)]
	delete(r.copies, PlainName(name))
	return ok
}

// copiesOf describes the copies of models, sorted by name. A copy is hidden if a model has its name.
func (r *Host) copiesOf(all []ModelInfo) (out []ModelInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.copies)) {
		is := func(name string) func(ModelInfo) bool {
			return func(info ModelInfo) bool { return info.Name == name }
		}
		if at := slices.IndexFunc(all, is(r.copies[name])); at >= 0 && !slices.ContainsFunc(all, is(name)) {
			info := all[at]
			info.Name, info.CopyOf = name, info.Name
			out = append(out, info)
		}
	}
	return out
}
