package regex

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// This file contains the part of the parser for sets of characters: classes, escapes and properties.

var (
	SetSpace = TableSet(unicode.White_Space)
	setDigit = TableSet(unicode.Nd)
	SetWord  = TableSet(unicode.L, unicode.M, unicode.Nd, unicode.Pc)
)

// class parses the rest of [...].
func (p *regexParser) class() Set {
	negated := p.take("^")
	var ranges []Range
	for first := true; !p.take("]"); first = false {
		rest := p.src[p.pos:]
		if strings.HasPrefix(rest, "[") || strings.HasPrefix(rest, "&&") {
			fault.Raisef("a class inside a class is not supported")
		}
		lo, set := p.classItem()
		if set != nil {
			p.work.spend(len(set))
			ranges = append(ranges, set...)
			continue
		}
		hi := lo
		if strings.HasPrefix(p.src[p.pos:], "-") && !strings.HasPrefix(p.src[p.pos:], "-]") {
			if lo == '-' && !first {
				fault.Raisef("a bare - inside a class is not supported")
			}
			p.pos++
			if hi, set = p.classItem(); set != nil || hi < lo {
				fault.Raisef("a range in a class does not ascend from character to character")
			}
		}
		ranges = append(ranges, Range{lo, hi})
	}
	if len(ranges) == 0 {
		fault.Raisef("an empty class")
	}
	return p.folded(NewSet(ranges)).negateIf(negated)
}

// classItem parses a character, or an escape that stands for a set.
func (p *regexParser) classItem() (rune, Set) {
	if !p.take(`\`) {
		return p.char(), nil
	}
	set := p.escape()
	if len(set) == 1 && set[0].Lo == set[0].Hi {
		return set[0].Lo, nil
	}
	return 0, set
}

// escape parses what follows a backslash.
func (p *regexParser) escape() Set {
	c := p.char()
	if strings.ContainsRune("SDWpP", c) { // sets that are built here
		p.work.spend(len(SetWord))
	}
	if i := strings.IndexRune("nrtfv", c); i >= 0 {
		c = rune("\n\r\t\f\v"[i])
		return Set{{c, c}}
	}
	switch c {
	case 's', 'S':
		return SetSpace.negateIf(c == 'S')
	case 'd', 'D':
		return setDigit.negateIf(c == 'D')
	case 'w', 'W':
		return SetWord.negateIf(c == 'W')
	case 'p', 'P':
		return p.property().negateIf(c == 'P')
	case 'x':
		if p.take("{") {
			digits, _, _ := strings.Cut(p.src[p.pos:], "}")
			return p.hex(len(digits), 1)
		}
		return p.hex(2, 0)
	case 'u':
		return p.hex(4, 0)
	}
	if c >= utf8.RuneSelf || c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) {
		fault.Raisef(`\%c is not supported`, c)
	}
	return Set{{c, c}}
}

// hex parses a character that is given by n hexadecimal digits, and skips skip bytes after them.
func (p *regexParser) hex(n, skip int) Set {
	if p.pos+n+skip > len(p.src) {
		fault.Raisef("it ends inside a hexadecimal number")
	}
	v, err := strconv.ParseUint(p.src[p.pos:p.pos+n], 16, 32)
	if err != nil || v > unicode.MaxRune {
		fault.Raisef("%q is not the hexadecimal number of a character", p.src[p.pos:p.pos+n])
	}
	p.pos += n + skip
	return Set{{rune(v), rune(v)}}
}

// property parses the {name} of a general category or a script.
func (p *regexParser) property() Set {
	name, _, found := strings.Cut(p.src[p.pos:], "}")
	name, open := strings.CutPrefix(name, "{")
	if !found || !open {
		fault.Raisef(`want {name} after \p`)
	}
	p.pos += len(name) + 2
	name, negated := strings.CutPrefix(name, "^")
	table := unicode.Categories[name]
	if table == nil {
		table = unicode.Scripts[name]
	}
	if table == nil {
		fault.Raisef(`the property \p{%s} is not supported`, name)
	}
	// Case folding precedes negation, so that excluded characters are excluded in both cases.
	return p.folded(TableSet(table)).negateIf(negated)
}
