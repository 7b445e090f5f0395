package evidence

import (
	"path"
	"regexp"
	"strings"
)

// call is a call of hippo in a shell block of a page.
type call struct {
	line int
	args []string // without the program's name
}

// shellBlock matches a block of shell commands on a page.
var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// cellCommand matches a command that fills a table cell. standIn matches a placeholder: a word in capitals.
var (
	cellCommand = regexp.MustCompile("^`((?:\\./)?hippo [^`\n]+)`$")
	standIn     = regexp.MustCompile(`\b[A-Z]{2,}\b`)
)

// callsOf returns the calls of hippo in the shell blocks and tables of a page.
func callsOf(text string) (all []call) {
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for _, cell := range strings.Split(line, "|") {
			command := cellCommand.FindStringSubmatch(strings.TrimSpace(cell))
			if command == nil || standIn.MatchString(command[1]) {
				continue
			}
			for _, c := range calls(command[1]) {
				all = append(all, call{i + 1, c.args})
			}
		}
	}
	for _, at := range shellBlock.FindAllStringSubmatchIndex(text, -1) {
		line := 1 + strings.Count(text[:at[2]], "\n")
		for _, c := range calls(text[at[2]:at[3]]) {
			c.line += line
			all = append(all, c)
		}
	}
	return all
}

// calls parses the subset of shell that pages use: quoted words, lists, pipes, redirections, comments, loops over words
// and calls inside of $( ). A loop variable has the value of the loop's first word.
func calls(text string) (all []call) {
	s := shell{text: text, values: map[string]string{}}
	for !s.done() {
		words := s.command()
		if c := s.call(words); c != nil {
			all = append(all, *c)
		}
	}
	return all
}

// shell is the state of parsing a shell text.
type shell struct {
	text   string
	at     int
	line   int // current line
	from   int // line on which the command begins
	values map[string]string
}

func (s *shell) done() bool { return s.at >= len(s.text) }

// next consumes the next byte and returns it.
func (s *shell) next() byte {
	c := s.text[s.at]
	if s.at++; c == '\n' {
		s.line++
	}
	return c
}

// command reads the words of the next simple command.
func (s *shell) command() (words []string) {
	var word strings.Builder
	begun, dropped := false, false // whether a word has begun, and whether it is the file of a redirection
	end := func() {
		if begun && !dropped {
			words = append(words, word.String())
		}
		if begun {
			begun, dropped = false, false
			word.Reset()
		}
	}
	s.from = s.line
	for !s.done() {
		c := s.next()
		switch {
		case c == '\\' && !s.done():
			if c = s.next(); c != '\n' {
				word.WriteByte(c)
				begun = true
			}
		case c == '\'' || c == '"':
			s.quoted(c, &word)
			begun = true
		case c == '#' && !begun:
			for !s.done() && s.text[s.at] != '\n' {
				s.next()
			}
		case c == ' ' || c == '\t':
			end()
		case c == '>' || c == '<':
			if !begun || strings.Trim(word.String(), "0123456789") == "" { // 2>
				word.Reset()
			} else {
				end()
			}
			for !s.done() && strings.IndexByte("<>& ", s.text[s.at]) >= 0 {
				s.next()
			}
			begun, dropped = true, true
		case strings.IndexByte("\n;|&()", c) >= 0:
			if end(); len(words) > 0 {
				return words
			}
			s.from = s.line
		case c == '$':
			s.variable(&word)
			begun = true
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	end()
	return words
}

// quoted reads to the end of a quoted string.
func (s *shell) quoted(quote byte, word *strings.Builder) {
	for !s.done() {
		c := s.next()
		switch {
		case c == quote:
			return
		case quote == '"' && c == '\\' && !s.done():
			word.WriteByte(s.next())
		case quote == '"' && c == '$':
			s.variable(word)
		default:
			word.WriteByte(c)
		}
	}
}

var variableName = regexp.MustCompile(`^(\w+)|^\{(\w+)\}`)

// variable reads a variable after a $, and writes its value if it has one.
func (s *shell) variable(word *strings.Builder) {
	found := variableName.FindStringSubmatch(s.text[s.at:])
	if found == nil {
		word.WriteByte('$')
		return
	}
	s.at += len(found[0])
	name := found[1] + found[2]
	if value, ok := s.values[name]; ok {
		word.WriteString(value)
	} else {
		word.WriteString("$" + name)
	}
}

var assignment = regexp.MustCompile(`^[A-Za-z_]\w*=`)

// call returns the call of hippo in words, or nil if they are another command.
func (s *shell) call(words []string) *call {
	for len(words) > 0 {
		switch word := words[0]; {
		case word == "for" && len(words) > 3:
			s.values[words[1]] = words[3]
			return nil
		case assignment.MatchString(word):
			name, value, _ := strings.Cut(word, "=")
			s.values[name] = value
		case word == "nice" && len(words) > 2 && words[1] == "-n":
			words = words[2:]
		case word == "do", word == "then", word == "if", word == "while", word == "!", word == "time", word == "exec":
		case path.Base(word) == "hippo":
			return &call{s.from, words[1:]}
		default:
			return nil
		}
		words = words[1:]
	}
	return nil
}
