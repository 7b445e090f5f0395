package model

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/nn"
)

// Freeze excludes the parameters that the patterns match from training: they get no gradient and take no memory for
// moments. A pattern is the name of a parameter, or a prefix of names up to a dot, such as that of a layer. In a
// pattern, * stands for any text, ? for one character, and 0-5 between dots for the numbers from 0 to 5. If a pattern
// is invalid or matches no name, nothing is frozen, and the error reports all such patterns with similar names.
func (p *Parameters) Freeze(patterns []string) error {
	var params []*nn.Param
	var names []string
	p.of.Params("", func(name string, q *nn.Param) {
		names, params = append(names, name), append(params, q)
	})
	frozen, err := freezes.match(names, patterns)
	if err != nil {
		return err
	}
	for i, q := range params {
		if frozen[i] {
			q.SetNeedsGrad(false)
		}
	}
	return nil
}

// FirstTrained returns the first block that a backward pass reaches, or the number of blocks if it reaches none. All
// parameters below that block are frozen.
func (m *Model) FirstTrained() int {
	names := m.Config.naming()
	first := len(m.Blocks)
	visit := func(name string, p *nn.Param) {
		if !p.NeedsGrad() {
			return
		}
		var layer int
		if _, err := fmt.Sscanf(name, "backbone.layers.%d.", &layer); err == nil {
			first = min(first, layer)
		} else if slices.ContainsFunc([]string{names.embedding, names.positions, embedNorm},
			func(s string) bool { return strings.HasPrefix(name, s) }) {
			first = 0
		}
	}
	m.Params("", visit)
	if m.adapter != nil {
		m.adapter.Params("", visit)
	}
	return first
}

// nearNames is the number of similar names that an error lists.
const nearNames = 3

// withParts returns names and their prefixes up to a dot.
func withParts(names []string) (all []string) {
	seen := map[string]bool{}
	for _, name := range names {
		for i := range len(name) + 1 {
			if (i == len(name) || name[i] == '.') && !seen[name[:i]] {
				seen[name[:i]] = true
				all = append(all, name[:i])
			}
		}
	}
	return all
}

var rangePart = regexp.MustCompile(`^(\d+)-(\d+)$`)

// patterns selects parameters by the name patterns in a field.
type patterns struct {
	field   string
	names   string // what the names stand for, in errors
	compile func(pattern string) (*regexp.Regexp, error)
	parts   func(names []string) []string // names to suggest for a pattern without a match
}

var (
	freezes = patterns{"freeze", "parameter", compileGlob, withParts}
	targets = patterns{"target", "matrix of a product", compileTarget, parts}
)

// match reports which names match at least one pattern. The error lists the problems of all patterns.
func (p patterns) match(names, patterns []string) ([]bool, error) {
	var problems config.Problems
	matched := make([]bool, len(names))
	for _, pattern := range patterns {
		matches, err := p.compile(pattern)
		if err != nil {
			problems.Addf(p.field, "%q: %v", pattern, err)
			continue
		}
		found := false
		for i, name := range names {
			if matches.MatchString(name) {
				matched[i], found = true, true
			}
		}
		if !found {
			near := config.Nearest(strings.Trim(pattern, ".*"), p.parts(names), nearNames)
			problems.Addf(p.field, "%q matches no %s, want names such as %s", pattern, p.names, brief.List(near, ", "))
		}
	}
	return matched, problems.Err()
}

// compileGlob compiles a pattern to an expression that matches names and their prefixes up to a dot.
func compileGlob(pattern string) (*regexp.Regexp, error) {
	var parts []string
	for part := range strings.SplitSeq(pattern, ".") {
		expr, err := compilePart(part)
		if err != nil {
			return nil, err
		}
		parts = append(parts, expr)
	}
	return regexp.Compile(`^(?:` + strings.Join(parts, `\.`) + `)(?:\.|$)`)
}

// compilePart compiles the part of a pattern between two dots.
func compilePart(part string) (string, error) {
	if ends := rangePart.FindStringSubmatch(part); ends != nil {
		first, err1 := strconv.Atoi(ends[1])
		last, err2 := strconv.Atoi(ends[2])
		if err1 != nil || err2 != nil || first > last || last >= maxLayers {
			return "", fmt.Errorf("found the range %s, want FIRST-LAST with FIRST ≤ LAST < %d", part, maxLayers)
		}
		numbers := make([]string, 0, last-first+1)
		for i := first; i <= last; i++ {
			numbers = append(numbers, strconv.Itoa(i))
		}
		return `(?:` + strings.Join(numbers, "|") + `)`, nil
	}
	if part == "" {
		return "", fmt.Errorf("found nothing before, after or between dots, want a name, a range or *")
	}
	expr := regexp.QuoteMeta(part)
	return strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(expr), nil
}
