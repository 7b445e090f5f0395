package task

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// expressions is a Split of expressions and their values. It stores one byte per token.
type expressions struct {
	textList // tokens
	values   []byte
	longest  int
}

func (e *expressions) add(tokens []int32, value int32) {
	for _, t := range tokens {
		e.bytes = append(e.bytes, byte(t))
	}
	e.ends = append(e.ends, len(e.bytes))
	e.values = append(e.values, byte(value))
	e.longest = max(e.longest, len(tokens))
}

// Len returns the number of expressions.
func (e *expressions) Len() int { return len(e.ends) }

// Length returns the number of tokens of expression i.
func (e *expressions) Length(i int) int { return len(e.at(i)) }

// Example copies expression i to ex.
func (e *expressions) Example(i int, ex *Example) {
	ex.Reset()
	for _, t := range e.at(i) {
		ex.Tokens = append(ex.Tokens, int32(t))
	}
	ex.Targets = append(ex.Targets, int32(e.values[i]))
}

// listOpsOrigin is the origin of the published files.
var listOpsOrigin = origin{"listops", "Long Range Arena (lra_release.gz)", arenaURL}

// readListOps reads the published files under dir.
func readListOps(ctx context.Context, dir string) (*Set, error) {
	s := &Set{Vocab: int(opTokens), Outputs: 10, Classes: numerals(10)}
	for _, part := range []struct {
		name string
		to   *Split
	}{{"basic_train.tsv", &s.Train}, {"basic_val.tsv", &s.Valid}, {"basic_test.tsv", &s.Test}} {
		file, err := listOpsOrigin.find(dir, layouts(part.name, "", "listops-1000/", "lra_release/listops-1000/",
			"lra_release/lra_release/listops-1000/")...)
		if err != nil {
			return nil, err
		}
		all := &expressions{}
		if err := listOpsOrigin.read(file, func(r io.Reader) error { return all.read(ctx, r) }); err != nil {
			return nil, err
		}
		*part.to = all
		s.MaxLength = max(s.MaxLength, all.longest)
	}
	return s, nil
}

const (
	listOpsHeader = "Source\tTarget"
	listOpsLine   = 1 << 20 // maximum length of a line: official lines have less than 20,000 bytes
)

// read adds the expressions of a file, which starts with a header:
//
//	Source	Target
//	( ( ( [MAX 2 ) 9 ) ] )	9
//
// It returns an error for a different header, for a line that is too long or has no two columns or no expression, and
// for a value that is wrong for its expression.
func (e *expressions) read(ctx context.Context, r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), listOpsLine)
	var tokens []int32
	number := 0
	for lines.Scan() {
		number++
		if err := ctx.Err(); err != nil {
			return err
		}
		line := lines.Bytes() // without \n and \r\n
		if number == 1 {
			if string(line) != listOpsHeader {
				return fmt.Errorf("line 1: found %.40q, want %q", line, listOpsHeader)
			}
			continue
		}
		var err error
		if tokens, err = e.row(tokens[:0], line); lines.Err() != nil {
			break // the file ends in this line
		} else if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("line %d: longer than %d bytes", number+1, listOpsLine)
	} else if err != nil {
		return err
	}
	if e.Len() == 0 {
		return fmt.Errorf("found no expression, want lines after %q", listOpsHeader)
	}
	return nil
}

// row adds the expression of a line. It appends the expression's tokens to tokens.
func (e *expressions) row(tokens []int32, line []byte) ([]int32, error) {
	source, target, ok := bytes.Cut(line, []byte{'\t'})
	if !ok || bytes.IndexByte(target, '\t') >= 0 {
		return tokens, fmt.Errorf("found %d columns, want 2", 1+bytes.Count(line, []byte{'\t'}))
	}
	tokens, err := appendTokens(tokens, source)
	if err != nil {
		return tokens, err
	}
	value, err := evaluate(tokens)
	if err != nil {
		return tokens, err
	}
	if string(target) != strconv.Itoa(int(value)) {
		return tokens, fmt.Errorf("found target %.20q, want %d, the value of the expression", target, value)
	}
	e.add(tokens, value)
	return tokens, nil
}
