package model

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/nn"
)

// Freeze excludes the parameters that patterns name from training: they get no gradient and take no memory for moments.
// A pattern is the name of a parameter, or a prefix of names up to a dot, such as that of a layer; in it * stands for
// any text, ? for one character, and 0-5 between dots for the numbers from 0 to 5. It is an error if a pattern is
// invalid or no name matches it; then the error lists near names. The error has the problems of all patterns, and then
// nothing is frozen.
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
		} else if strings.HasPrefix(name, names.embedding) || strings.HasPrefix(name, names.positions) {
			first = 0
		}
	}
	m.Params("", visit)
	if m.adapter != nil {
		m.adapter.Params("", visit)
	}
	return first
}

// nearNames is how many names an error lists.
const nearNames = 3

// withParts are names and what they begin with, up to a dot.
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

// patterns select parameters by the names in a field.
type patterns struct {
	field   string
	names   string // of what, for an error
	compile func(pattern string) (*regexp.Regexp, error)
	parts   func(names []string) []string // that a pattern may have meant
}

var (
	freezes = patterns{"freeze", "parameter", compileGlob, withParts}
	targets = patterns{"target", "matrix of a product", compileTarget, parts}
)

// match reports which names one of some patterns matches. The error has the problems of all patterns.
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

// compileGlob makes an expression of a pattern, which matches names and what begins them up to a dot.
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

// compilePart makes an expression of what stands between dots.
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
