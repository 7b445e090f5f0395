package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// edit replaces del bytes at an offset by text, in which %d stands for the number of the site's first mutant plus plus.
type edit struct {
	at, del int
	text    string
	plus    int
	close   bool
}

// piece is a run of bytes of an instrumented file that a site has inserted, or that was copied from an offset.
type piece struct {
	upTo, from int
	site       *site
}

// instrumented returns the file with the edits of its sites, and the origins of its pieces.
func (f *source) instrumented(sites []*site) (out []byte, pieces []piece) {
	type placed struct {
		edit
		seq  int
		site *site
	}
	var all []placed
	for i, s := range sites {
		if s.file != f {
			continue
		}
		for _, e := range s.edits {
			all = append(all, placed{e, i, s})
		}
	}
	order := func(p placed) int { // closing edits first, then replacements, then opening edits
		switch {
		case p.close:
			return 0
		case p.text == ",":
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b placed) int {
		bySeq := a.seq - b.seq
		if a.close && b.close {
			bySeq = -bySeq
		}
		return cmp.Or(a.at-b.at, order(a)-order(b), bySeq)
	})
	at := 0
	for _, p := range all {
		out = append(out, f.text[at:p.at]...)
		pieces = append(pieces, piece{len(out), at, nil})
		out = append(out, strings.ReplaceAll(p.text, "%d", fmt.Sprint(p.site.first+p.plus))...)
		pieces = append(pieces, piece{len(out), p.at, p.site})
		at = p.at + p.del
	}
	out = append(out, f.text[at:]...)
	return out, append(pieces, piece{len(out), at, nil})
}

// innermost returns the innermost site around an error at an offset of the instrumented file.
func (f *source) innermost(sites []*site, pieces []piece, offset int) (in *site) {
	start := 0
	for _, p := range pieces {
		if offset < p.upTo {
			if p.site != nil {
				return p.site
			}
			offset += p.from - start
			break
		}
		start = p.upTo
	}
	for _, s := range sites { // parents come first
		if s.file == f && s.from <= offset && offset < s.to {
			in = s
		}
	}
	return in
}
