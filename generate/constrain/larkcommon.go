package constrain

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

var larkImport = regexp.MustCompile(`^common(?:\.(_?[A-Z][_A-Z0-9]*)(?:[ \t]*->[ \t]*(_?[A-Z][_A-Z0-9]*))?|` +
	`[ \t]*\(([^()]*)\))`)

// imports parses the names of the imported terminals of Lark's grammar common.
func (l *lark) imports() {
	at := l.at
	part := larkImport.FindStringSubmatch(l.source[at:])
	if part == nil {
		l.fail("found %s, want terminals of common, as in common.INT and common (INT, WS): other grammars are not "+
			"supported", l.found())
	}
	if l.common == nil {
		l.common = readLark("", larkCommon)
		l.common.start("WS")
		for _, r := range l.common.all {
			r.at = at + 1
		}
		l.all = append(l.all, l.common.all...)
	}
	names := []string{part[1]}
	if part[1] == "" {
		names = strings.Split(part[3], ",")
	}
	for _, name := range names {
		name = strings.TrimSpace(name)
		from, as := l.common.named[name], name
		if part[2] != "" {
			as = part[2]
		}
		if from == nil {
			l.fail("found the terminal %.40q, want one of common: %s", name,
				strings.Join(slices.Sorted(maps.Keys(l.common.named)), ", "))
		}
		r := l.of(as)
		if r.at > 0 {
			l.fail("found %.40q a second time, want another name", as)
		}
		r.at, r.leaf = at+1, true
		r.ways = [][]symbol{{{rule: from, least: 1, most: 1}}}
	}
	l.at += len(part[0])
}

// larkCommon holds Lark's predefined terminals (lark/grammars/common.lark). A string or comment ends at the first end
// mark.
const larkCommon = `
DIGIT: "0".."9"
HEXDIGIT: "a".."f" | "A".."F" | DIGIT
INT: DIGIT+
SIGNED_INT: ["+" | "-"] INT
DECIMAL: INT "." INT? | "." INT
_EXP: ("e" | "E") SIGNED_INT
FLOAT: INT _EXP | DECIMAL _EXP?
SIGNED_FLOAT: ["+" | "-"] FLOAT
NUMBER: FLOAT | INT
SIGNED_NUMBER: ["+" | "-"] NUMBER
_STRING_INNER: /.*/
_STRING_ESC_INNER: /(?:[^"\\\n]|\\[^\n])*/
ESCAPED_STRING: "\"" _STRING_ESC_INNER "\""
LCASE_LETTER: "a".."z"
UCASE_LETTER: "A".."Z"
LETTER: UCASE_LETTER | LCASE_LETTER
WORD: LETTER+
CNAME: ("_" | LETTER) ("_" | LETTER | DIGIT)*
WS_INLINE: (" " | "\t")+
WS: /[ \t\f\r\n]/+
CR: "\r"
LF: "\n"
NEWLINE: (CR? LF)+
SH_COMMENT: /#[^\n]*/
CPP_COMMENT: /\/\/[^\n]*/
C_COMMENT: "/*" /[^*]*\*+(?:[^\/*][^*]*\*+)*\//
SQL_COMMENT: /--[^\n]*/
`
