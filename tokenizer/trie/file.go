package trie

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/tokenizer/bpe"
)

// FileName is the name of the published vocabulary. Pattern matches that and later versions.
const (
	FileName = "rwkv_vocab_v20230424.txt"
	Pattern  = "rwkv_vocab_*.txt"
)

// Parse parses a vocabulary. Each line has an id, a string or bytes as Python writes them, and the number of bytes:
//
//	13 '\x0c' 1
//	300 b'\xe2\x80' 2
func Parse(file []byte) (*Tokenizer, error) {
	var tokens []string
	number := 0
	for line := range bytes.Lines(file) {
		number++
		id, text, err := parseLine(strings.TrimRight(string(line), "\r\n"))
		if err == nil && id < len(tokens) && tokens[id] != "" {
			err = fmt.Errorf("found id %d again", id)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if n := id + 1 - len(tokens); n > 0 {
			tokens = append(tokens, make([]string, n)...)
		}
		tokens[id] = text
	}
	if len(tokens) == 0 {
		return nil, errors.New("found no token, want lines such as 13 '\\x0c' 1")
	}
	t := New(tokens)
	t.File = bytes.Clone(file)
	return t, nil
}

func parseLine(line string) (id int, text string, err error) {
	number, rest, _ := strings.Cut(line, " ")
	at := strings.LastIndexByte(rest, ' ')
	if at < 0 {
		return 0, "", fmt.Errorf("found %.60q, want ID 'TEXT' BYTES", line)
	}
	if id, err = strconv.Atoi(number); err != nil || id < 0 || id >= bpe.MaxIDs {
		return 0, "", fmt.Errorf("found the id %.20q, want 0 to %d", number, bpe.MaxIDs-1)
	}
	literal := rest[:at]
	text, err = literalOf(literal)
	if err != nil {
		return 0, "", err
	}
	if n, failed := strconv.Atoi(rest[at+1:]); failed != nil || n != len(text) || n == 0 {
		return 0, "", fmt.Errorf("found %.60s of %d bytes, want %.20s as the line says, and at least 1", literal,
			len(text), rest[at+1:])
	}
	return id, text, nil
}

// literalOf returns the bytes of a Python literal: a string 'é' or "it's", or bytes b'\xff'.
func literalOf(s string) (string, error) {
	inner, isBytes := strings.CutPrefix(s, "b")
	if len(inner) < 2 || inner[0] != '\'' && inner[0] != '"' || inner[len(inner)-1] != inner[0] {
		return "", fmt.Errorf("found %.60q, want a text between quotes, or b and bytes between quotes", s)
	}
	text, err := Unescape(inner[1:len(inner)-1], isBytes)
	if err != nil {
		return "", fmt.Errorf("%.60s: %w", s, err)
	}
	return text, nil
}

// Unescape replaces the escapes of a literal: \n, \r, \t, \xHH (a byte in bytes, a character in a string), \uHHHH and
// \UHHHHHHHH. An escape of any other character is that character.
func Unescape(s string, isBytes bool) (string, error) {
	var out []byte
	for len(s) > 0 {
		if s[0] != '\\' {
			out, s = append(out, s[0]), s[1:]
			continue
		}
		if len(s) < 2 {
			return "", errors.New("found \\ at the end")
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]]
		if isBytes && s[1] != 'x' {
			digits = 0
		}
		if digits == 0 {
			c := s[1]
			if i := strings.IndexByte("nrt", c); i >= 0 {
				c = "\n\r\t"[i]
			}
			out, s = append(out, c), s[2:]
			continue
		}
		if len(s) < 2+digits {
			return "", fmt.Errorf("found %q, want %d digits after it", s[:2], digits)
		}
		v, err := strconv.ParseUint(s[2:2+digits], 16, 32)
		switch {
		case err != nil, !isBytes && !utf8.ValidRune(rune(v)):
			return "", fmt.Errorf("found %q, want the number of a character in hexadecimal digits", s[:2+digits])
		case isBytes:
			out = append(out, byte(v))
		default:
			out = utf8.AppendRune(out, rune(v))
		}
		s = s[2+digits:]
	}
	return string(out), nil
}

// Escape returns bytes as Python writes them between the quotes of b'…'.
func Escape(text string) string {
	var out strings.Builder
	for _, c := range []byte(text) {
		switch {
		case c == '\\':
			out.WriteString(`\\`)
		case c == '\n':
			out.WriteString(`\n`)
		case c == '\r':
			out.WriteString(`\r`)
		case c == '\t':
			out.WriteString(`\t`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&out, `\x%02x`, c)
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// Text returns the vocabulary in the form of Parse. If it was parsed from a file, it returns the file.
func (t *Tokenizer) Text() []byte {
	if t.File != nil {
		return t.File
	}
	var out bytes.Buffer
	for id, text := range t.Tokens {
		if text != "" {
			fmt.Fprintf(&out, "%d b'%s' %d\n", id, strings.ReplaceAll(Escape(text), "'", `\'`), len(text))
		}
	}
	return out.Bytes()
}
