package table

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

var nan = math.NaN()

// FASTA contains sequences of DNA, RNA or proteins: a line that starts with > and names a sequence, then its letters. A
// row is one letter, in upper case.
var FASTA = &Format{
	Name: "fasta", About: "sequences of letters, each after a line that starts with >",
	Extensions: []string{".fasta", ".fa", ".fna", ".faa", ".ffn"},
	Open:       func(in *Input, opt *Options) (Source, error) { return openLetters(in, opt, false) },
}

// FASTQ is FASTA with the Phred quality of each letter, 0 or higher, and with four lines per sequence.
var FASTQ = &Format{
	Name: "fastq", About: "sequences of letters with the quality of each", Extensions: []string{".fastq", ".fq"},
	Open: func(in *Input, opt *Options) (Source, error) { return openLetters(in, opt, true) },
}

// The columns of FASTA and FASTQ.
const (
	nameColumn    = "name"
	letterColumn  = "letter"
	qualityColumn = "quality"
)

// letters reads a FASTA or FASTQ file.
type letters struct {
	name string
	lines
	head string // line with the name of the next sequence
}

func openLetters(in *Input, opt *Options, quality bool) (Source, error) {
	text, err := textReader(in, opt.Encoding)
	if err != nil {
		return nil, err
	}
	s := &letters{name: in.Name, lines: newLines(text)}
	src := &recordSource{next: s.fasta}
	src.about = About{Columns: []string{letterColumn, nameColumn}, Sequences: true}
	if quality {
		src.about.Columns = []string{letterColumn, qualityColumn, nameColumn}
		src.next = s.fastq
	}
	return src, nil
}

// mostLetters is the maximum length of a sequence in memory: more than the largest chromosome.
const mostLetters = 1 << 31

// next returns the next line that is not empty, with at most left bytes.
func (s *letters) next(left int) (string, error) {
	line, err := s.lines.next(left)
	if errors.Is(err, errTooLong{}) {
		err = fmt.Errorf("%s, line %d: found more than %d letters, want at most that", s.name, s.line+1, mostLetters)
	}
	return string(line), err
}

func (s *letters) wrong(format string, args ...any) error {
	return fmt.Errorf("%s, line %d: %s", s.name, s.line, fmt.Sprintf(format, args...))
}

// fasta reads a sequence.
func (s *letters) fasta() (*record, error) {
	if s.head == "" {
		line, err := s.next(mostLetters)
		if err != nil {
			return nil, err
		}
		if line[0] != '>' {
			return nil, s.wrong("found %.20q, want a line such as >name", line)
		}
		s.head = line
	}
	name, at := s.head[1:], s.line
	s.head = ""
	var b strings.Builder
	for {
		line, err := s.next(mostLetters - b.Len())
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if line[0] == '>' {
			s.head = line
			break
		}
		if err := s.check(line); err != nil {
			return nil, err
		}
		b.WriteString(strings.ToUpper(line))
	}
	if b.Len() == 0 {
		return nil, s.wrong("found no letters of the sequence %.40q", name)
	}
	text := b.String()
	return &record{place: Place{s.name, "line", at}, name: name, n: len(text), cell: func(row, i int) Cell {
		if i == 0 {
			return Cell{Form: Text, Text: text[row : row+1]}
		}
		return Cell{Form: Text, Text: name}
	}}, nil
}

// check returns an error unless a line contains only letters, gaps and stops.
func (s *letters) check(line string) error {
	for i, c := range []byte(line) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && c != '-' && c != '*' && c != '.' {
			return s.wrong("letter %d: found %q, want letters, - or *", i+1, c)
		}
	}
	return nil
}

// fastq reads a sequence with qualities.
func (s *letters) fastq() (*record, error) {
	var lines [4]string
	at := int64(0)
	for i := range lines {
		line, err := s.next(mostLetters)
		if err == io.EOF && i > 0 {
			return nil, s.wrong("found the end of the file, want four lines for each sequence")
		}
		if err != nil {
			return nil, err
		}
		if lines[i] = line; i == 0 {
			at = s.line
		}
	}
	switch {
	case lines[0][0] != '@' || lines[2][0] != '+':
		return nil, s.wrong("found lines that begin with %q and %q, want @ and +", lines[0][0], lines[2][0])
	case len(lines[1]) != len(lines[3]):
		return nil, s.wrong("found %d letters and %d qualities, want as many", len(lines[1]), len(lines[3]))
	}
	if err := s.check(lines[1]); err != nil {
		return nil, err
	}
	name, text, quality := lines[0][1:], strings.ToUpper(lines[1]), lines[3]
	return &record{place: Place{s.name, "line", at}, name: name, n: len(text), cell: func(row, i int) Cell {
		switch i {
		case 0:
			return Cell{Form: Text, Text: text[row : row+1]}
		case 1:
			return RealCell(float64(quality[row]) - '!')
		}
		return Cell{Form: Text, Text: name}
	}}, nil
}
