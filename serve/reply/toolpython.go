package reply

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/serve/request"
)

// pythonReader reads a list of calls in Python syntax with constants only: names, strings, numbers, lists and
// dictionaries.
type pythonReader struct {
	text  string
	at    int
	depth int
}

// maxPython is the maximum nesting of lists and dictionaries.
const maxPython = 64

// pythonError is the panic value of a reader. readPython returns it as an error.
type pythonError struct{ err error }

// readPython reads a list of calls, or one call, and returns the text after it.
func readPython(text string) (calls []ToolCall, rest string, err error) {
	defer func() {
		if e := recover(); e != nil {
			mistake, ok := e.(pythonError)
			if !ok {
				panic(e)
			}
			calls, rest, err = nil, "", mistake.err
		}
	}()
	r := &pythonReader{text: text}
	list := r.skip('[')
	for {
		name := r.name(".-")
		r.want('(')
		var out bytes.Buffer
		out.WriteByte('{')
		for first := true; !r.skip(')'); first = false {
			if !first {
				r.want(',')
				out.WriteString(", ")
				if r.skip(')') { // a comma after the last argument
					out.Truncate(out.Len() - 2)
					break
				}
			}
			key := r.name("")
			r.want('=')
			out.WriteString(quotedKey(key) + ": ")
			r.value(&out)
		}
		out.WriteByte('}')
		calls = append(calls, newToolCall(name, out.Bytes()))
		if !list {
			break
		}
		if r.skip(']') {
			break
		}
		r.want(',')
	}
	return calls, r.text[r.at:], nil
}

// next returns the next byte after white space, without consuming it. It panics with errMore at the end of the text.
func (r *pythonReader) next() byte {
	for r.at < len(r.text) && strings.IndexByte(" \n\r\t", r.text[r.at]) >= 0 {
		r.at++
	}
	if r.at == len(r.text) {
		panic(pythonError{errMore})
	}
	return r.text[r.at]
}

// skip skips the byte x if it is next, and reports whether it was.
func (r *pythonReader) skip(x byte) bool {
	if r.next() != x {
		return false
	}
	r.at++
	return true
}

func (r *pythonReader) want(x byte) {
	if !r.skip(x) {
		r.fail("want " + string(x))
	}
}

func (r *pythonReader) fail(want string) {
	panic(pythonError{fmt.Errorf("found %s in a call, %s", request.Shorten([]byte(r.text[r.at:])), want)})
}

// name reads a name of letters, digits, _ and a few other characters.
func (r *pythonReader) name(others string) string {
	r.next()
	from := r.at
	for r.at < len(r.text) {
		x := r.text[r.at]
		letter := x|0x20 >= 'a' && x|0x20 <= 'z' || x >= utf8.RuneSelf
		if !letter && x != '_' && (x < '0' || x > '9') && strings.IndexByte(others, x) < 0 {
			break
		}
		r.at++
	}
	if r.at == len(r.text) {
		panic(pythonError{errMore})
	}
	if r.at == from {
		r.fail("want a name")
	}
	return r.text[from:r.at]
}

// value reads a constant and writes it as JSON.
func (r *pythonReader) value(to *bytes.Buffer) {
	if r.depth++; r.depth > maxPython {
		r.fail("want constants that do not nest as deep")
	}
	defer func() { r.depth-- }()
	switch x := r.next(); {
	case x == '"' || x == '\'':
		to.WriteString(quotedKey(r.str()))
	case x == '[' || x == '(':
		r.at++
		r.list(to, '[', map[byte]byte{'[': ']', '(': ')'}[x], ']', false)
	case x == '{':
		r.at++
		r.list(to, '{', '}', '}', true)
	case x == '-' || x >= '0' && x <= '9':
		from := r.at
		for r.at < len(r.text) && strings.IndexByte("+-.eE0123456789", r.text[r.at]) >= 0 {
			r.at++
		}
		if r.at == len(r.text) {
			panic(pythonError{errMore})
		}
		if number := r.text[from:r.at]; json.Valid([]byte(number)) {
			to.WriteString(number)
		} else {
			r.fail("want a number before it")
		}
	default:
		word, ok := map[string]string{
			"True": "true", "true": "true", "False": "false", "false": "false", "None": "null", "null": "null",
		}[r.name("")]
		if !ok {
			r.fail("want a constant before it")
		}
		to.WriteString(word)
	}
}

// list reads the elements of a list or a dictionary, up to its end, and writes it with JSON's brackets.
func (r *pythonReader) list(to *bytes.Buffer, open, end, closing byte, keys bool) {
	to.WriteByte(open)
	for first := true; !r.skip(end); first = false {
		if !first {
			r.want(',')
			if r.skip(end) {
				break
			}
			to.WriteString(", ")
		}
		if keys {
			if x := r.next(); x != '"' && x != '\'' {
				r.fail("want a string as a key")
			}
			r.value(to)
			r.want(':')
			to.WriteString(": ")
		}
		r.value(to)
	}
	to.WriteByte(closing)
}

// str reads a string.
func (r *pythonReader) str() string {
	quote := r.text[r.at]
	var out []byte
	for i := r.at + 1; i < len(r.text); {
		x := r.text[i]
		if x == quote {
			r.at = i + 1
			return strings.ToValidUTF8(string(out), string(utf8.RuneError))
		}
		if x != '\\' {
			out = append(out, x)
			i++
			continue
		}
		if i+1 == len(r.text) {
			break
		}
		i++
		simple := strings.IndexByte(`"'\/bfnrt`, r.text[i])
		switch n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[r.text[i]]; {
		case simple >= 0:
			out = append(out, "\"'\\/\b\f\n\r\t"[simple])
			i++
		case n > 0 && i+1+n > len(r.text):
			panic(pythonError{errMore})
		case n > 0:
			code, err := strconv.ParseUint(r.text[i+1:i+1+n], 16, 32)
			if err != nil {
				r.fail("want hexadecimal digits behind \\" + r.text[i:i+1])
			}
			i += 1 + n
			if code >= 0xD800 && code < 0xDC00 && strings.HasPrefix(r.text[i:], `\u`) && len(r.text) >= i+6 {
				if low, err := strconv.ParseUint(r.text[i+2:i+6], 16, 32); err == nil && low >= 0xDC00 && low < 0xE000 {
					code = 0x10000 + (code-0xD800)<<10 + (low - 0xDC00)
					i += 6
				}
			}
			out = utf8.AppendRune(out, rune(code))
		default: // as in Python
			out = append(out, '\\', r.text[i])
			i++
		}
	}
	panic(pythonError{errMore})
}

// pythonArguments writes a JSON object as the arguments of a call. Values remain JSON, which readPython also accepts,
// except that true, false and null are written as in Python if constants is set.
func pythonArguments(object string, constants bool) string {
	d := json.NewDecoder(strings.NewReader(object))
	var out []string
	if _, err := d.Token(); err != nil {
		return ""
	}
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			return "" // not reached: it was JSON before
		}
		text := string(value)
		if word, ok := map[string]string{"true": "True", "false": "False", "null": "None"}[text]; ok && constants {
			text = word
		}
		out = append(out, fmt.Sprint(key, "=", text))
	}
	return strings.Join(out, ", ")
}
