package regex

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// This file is the part of the parser that reads sets of characters: classes, escapes and properties.

var (
	SetSpace = TableSet(unicode.White_Space)
	setDigit = TableSet(unicode.Nd)
	SetWord  = TableSet(unicode.L, unicode.M, unicode.Nd, unicode.Pc)
)

// class reads the rest of [...].
func (p *regexParser) class() (Set, error) {
	negated := p.take("^")
	var ranges []Range
	for first := true; !p.take("]"); first = false {
		rest := p.src[p.pos:]
		if strings.HasPrefix(rest, "[") || strings.HasPrefix(rest, "&&") {
			return nil, errors.New("a class inside a class is not supported")
		}
		lo, set, err := p.classItem()
		if err != nil {
			return nil, err
		}
		if set != nil {
			if err := p.work.spend(len(set)); err != nil {
				return nil, err
			}
			ranges = append(ranges, set...)
			continue
		}
		hi := lo
		if strings.HasPrefix(p.src[p.pos:], "-") && !strings.HasPrefix(p.src[p.pos:], "-]") {
			if lo == '-' && !first {
				return nil, errors.New("a bare - inside a class is not supported")
			}
			p.pos++
			if hi, set, err = p.classItem(); err != nil {
				return nil, err
			}
			if set != nil || hi < lo {
				return nil, errors.New("a range in a class does not ascend from character to character")
			}
		}
		ranges = append(ranges, Range{lo, hi})
	}
	if len(ranges) == 0 {
		return nil, errors.New("an empty class")
	}
	set := NewSet(ranges)
	if p.fold {
		var err error
		if set, err = p.folded(set); err != nil {
			return nil, err
		}
	}
	if negated {
		set = set.Negate()
	}
	return set, nil
}

// classItem reads a character, or an escape that stands for a set.
func (p *regexParser) classItem() (rune, Set, error) {
	if p.take(`\`) {
		set, err := p.escape()
		if err == nil && len(set) == 1 && set[0].Lo == set[0].Hi {
			return set[0].Lo, nil, nil
		}
		return 0, set, err
	}
	c, err := p.char()
	return c, nil, err
}

// escape reads what follows a backslash.
func (p *regexParser) escape() (Set, error) {
	c, err := p.char()
	if err != nil {
		return nil, err
	}
	if strings.ContainsRune("SDWpP", c) { // sets that are made anew
		if err := p.work.spend(len(SetWord)); err != nil {
			return nil, err
		}
	}
	one := func(r rune) (Set, error) { return Set{{r, r}}, nil }
	switch c {
	case 's':
		return SetSpace, nil
	case 'S':
		return SetSpace.Negate(), nil
	case 'd':
		return setDigit, nil
	case 'D':
		return setDigit.Negate(), nil
	case 'w':
		return SetWord, nil
	case 'W':
		return SetWord.Negate(), nil
	case 'p', 'P':
		set, err := p.property()
		if err == nil && c == 'P' {
			set = set.Negate()
		}
		return set, err
	case 'n':
		return one('\n')
	case 'r':
		return one('\r')
	case 't':
		return one('\t')
	case 'f':
		return one('\f')
	case 'v':
		return one('\v')
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
		return nil, fmt.Errorf(`\%c is not supported`, c)
	}
	return one(c)
}

// hex reads a character given by its number in n hexadecimal digits, and skips what follows them.
func (p *regexParser) hex(n, skip int) (Set, error) {
	if p.pos+n+skip > len(p.src) {
		return nil, errors.New("it ends inside a hexadecimal number")
	}
	v, err := strconv.ParseUint(p.src[p.pos:p.pos+n], 16, 32)
	if err != nil || v > unicode.MaxRune {
		return nil, fmt.Errorf("%q is not the hexadecimal number of a character", p.src[p.pos:p.pos+n])
	}
	p.pos += n + skip
	return Set{{rune(v), rune(v)}}, nil
}

// property reads the {name} of a general category or a script.
func (p *regexParser) property() (Set, error) {
	name, _, found := strings.Cut(p.src[p.pos:], "}")
	name, open := strings.CutPrefix(name, "{")
	if !found || !open {
		return nil, errors.New(`want {name} after \p`)
	}
	p.pos += len(name) + 2
	name, negated := strings.CutPrefix(name, "^")
	table := unicode.Categories[name]
	if table == nil {
		table = unicode.Scripts[name]
	}
	if table == nil {
		return nil, fmt.Errorf(`the property \p{%s} is not supported`, name)
	}
	set := TableSet(table)
	if p.fold { // before negation: what is left out is left out in both cases
		var err error
		if set, err = p.folded(set); err != nil {
			return nil, err
		}
	}
	if negated {
		set = set.Negate()
	}
	return set, nil
}
