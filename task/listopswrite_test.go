package task

import (
	"bufio"
	"io"
	"strconv"
)

// writeListOps writes the expressions of a split of ListOps in the format of the published files, as described at
// expressions.read. Lines end as in Python's csv module.
func writeListOps(w io.Writer, split Split) error {
	out := bufio.NewWriter(w)
	line := []byte(listOpsHeader)
	var ex Example
	for i := range split.Len() {
		out.Write(append(line, "\r\n"...)) // errors are returned by Flush
		split.Example(i, &ex)
		line = append(appendSource(line[:0], ex.Tokens), '\t')
		line = strconv.AppendInt(line, int64(ex.Targets[0]), 10)
	}
	out.Write(append(line, "\r\n"...))
	return out.Flush()
}

// appendSource appends the words of an expression in the notation of the files, with the parentheses of a binary tree:
// (((op a) b) ]).
func appendSource(dst []byte, tokens []int32) []byte {
	// number of parentheses before each operator: one for each of its values, and one for its end
	opened := make([]int, len(tokens))
	var open []int
	for i, token := range tokens {
		if token >= opMin && token < opEnd {
			open = append(open, i)
			opened[i] = 1
			continue
		}
		if token == opEnd {
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			opened[open[len(open)-1]]++
		}
	}
	depth := 0
	for i, token := range tokens {
		if i > 0 {
			dst = append(dst, ' ')
		}
		for range opened[i] {
			dst = append(dst, "( "...)
		}
		if dst = append(dst, opNames[token]...); token >= opMin && token < opEnd {
			depth++
			continue
		}
		if token == opEnd {
			dst = append(dst, " )"...)
			depth--
		}
		if depth > 0 { // the expression is a value of the enclosing operator
			dst = append(dst, " )"...)
		}
	}
	return dst
}
