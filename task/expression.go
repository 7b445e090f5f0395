package task

import (
	"errors"
	"fmt"
)

// Tokens of ListOps: first the digits, each with its own value, then the operators, then the end of an operator's list.
const (
	opMin int32 = iota + 10
	opMax
	opMed // median; for an even number of values the mean of the middle two, rounded down
	opSum // sum modulo 10
	opEnd
	opTokens // number of tokens
)

// opNames lists the words for the tokens in the files.
var opNames = [opTokens]string{
	"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", opMin: "[MIN", opMax: "[MAX",
	opMed: "[MED", opSum: "[SM", opEnd: "]",
}

// opToken returns the token for a word.
func opToken(word []byte) (int32, bool) {
	if len(word) == 1 && word[0] >= '0' && word[0] <= '9' {
		return int32(word[0] - '0'), true
	}
	for token := opMin; token < opTokens; token++ {
		if string(word) == opNames[token] {
			return token, true
		}
	}
	return 0, false
}

// list is an operator whose list has not ended yet.
type list struct {
	operator int32
	counts   [10]int // number of occurrences of each value
	n        int     // number of values
}

func (l *list) add(value int32) {
	l.counts[value]++
	l.n++
}

// value applies the operator.
func (l *list) value() int32 {
	switch l.operator {
	case opMin:
		return l.ranked(0)
	case opMax:
		return l.ranked(l.n - 1)
	case opMed:
		return (l.ranked((l.n-1)/2) + l.ranked(l.n/2)) / 2
	}
	sum := 0
	for value, n := range l.counts {
		sum += value * n
	}
	return int32(sum % 10)
}

// ranked returns the i-th smallest value.
func (l *list) ranked(i int) int32 {
	var value int32
	for i >= l.counts[value] {
		i -= l.counts[value]
		value++
	}
	return value
}

// evaluate returns the value of an expression of ListOps in tokens, such as [MAX 2 9 [MIN 4 7 ] 0 ].
func evaluate(tokens []int32) (int32, error) {
	var open []list
	for i, token := range tokens {
		if token >= opMin && token < opEnd {
			open = append(open, list{operator: token})
			continue
		}
		value := token
		if token == opEnd {
			if len(open) == 0 {
				return 0, fmt.Errorf("token %d: found ] without an operator", i)
			}
			last := &open[len(open)-1]
			if last.n == 0 {
				return 0, fmt.Errorf("token %d: found ] after %s, want a value", i, opNames[last.operator])
			}
			value = last.value()
			open = open[:len(open)-1]
		} else if token < 0 || token > 9 {
			return 0, fmt.Errorf("token %d: found %d, want less than %d", i, token, opTokens)
		}
		switch {
		case len(open) > 0:
			open[len(open)-1].add(value)
		case i == len(tokens)-1:
			return value, nil
		default:
			return 0, fmt.Errorf("token %d: found more after the end of the expression", i+1)
		}
	}
	if len(open) > 0 {
		return 0, fmt.Errorf("found the end within %s, want ]", opNames[open[len(open)-1].operator])
	}
	return 0, errors.New("found no expression")
}

// appendTokens appends the tokens of an expression in the notation of the files. Parentheses are skipped, because the
// brackets give the same structure.
func appendTokens(dst []int32, source []byte) ([]int32, error) {
	for i := 0; i < len(source); {
		if source[i] == ' ' {
			i++
			continue
		}
		start := i
		for i < len(source) && source[i] != ' ' {
			i++
		}
		word := source[start:i]
		if len(word) == 1 && (word[0] == '(' || word[0] == ')') {
			continue
		}
		token, ok := opToken(word)
		if !ok {
			return dst, fmt.Errorf("column %d: found %.20q, want a digit, an operator, ] or a parenthesis",
				start+1, word)
		}
		dst = append(dst, token)
	}
	return dst, nil
}
