// Package course contains the exercises of docs/course. Package ssm computes the answers when they are checked. Package
// course may import explain/theory, ssm and gonum's matrices.
package course

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Exercise is a question whose answer is numbers or words, with an explanation of the answer.
type Exercise struct {
	ID       string // chapter and number, such as "3.2"
	Question string // ends with the form of the answer, as in the chapter
	// Numbers computes the answer. It is nil if the answer is Words.
	Numbers func() ([]float64, error)
	Words   func() ([]string, error)
	// Slips contains common wrong answers.
	Slips []Slip
	// Why explains the answer in a sentence or two.
	Why string
}

// Slip is a wrong answer and its probable cause.
type Slip struct {
	Numbers func() ([]float64, error)
	Says    string
}

// Chapter is a chapter of the course. Its number is its index, counted from 1.
type Chapter struct {
	Title     string
	File      string // in docs/course
	Exercises []Exercise
}

// Find returns the exercise with the given ID. If there is none, the error lists all IDs.
func Find(id string) (*Exercise, error) {
	var known []string
	for _, c := range Chapters() {
		for i := range c.Exercises {
			if c.Exercises[i].ID == id {
				return &c.Exercises[i], nil
			}
			known = append(known, c.Exercises[i].ID)
		}
	}
	return nil, fmt.Errorf("exercise: found %.40q, want a chapter and an exercise: one of %s", id,
		strings.Join(known, ", "))
}

// tolerance is the allowed relative error of a number: four digits are enough.
const tolerance = 2e-4

// Check compares a text with the answer. off is empty if the text is right. Otherwise it describes what is wrong
// without revealing the answer. If the text cannot be parsed, Check returns an error.
func (e *Exercise) Check(text string) (off string, err error) {
	if e.Words != nil {
		return e.checkWords(text)
	}
	want, err := e.Numbers()
	if err != nil {
		return "", err
	}
	got, err := parse(text)
	if err != nil {
		return "", err
	}
	if near(got, want) {
		return "", nil
	}
	for _, s := range e.Slips {
		slip, err := s.Numbers()
		if err != nil {
			return "", err
		}
		if near(got, slip) {
			return s.Says, nil
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("found %d numbers, want %d", len(got), len(want)), nil
	}
	return compare(got, want), nil
}

func (e *Exercise) checkWords(text string) (off string, err error) {
	want, err := e.Words()
	if err != nil {
		return "", err
	}
	got := strings.FieldsFunc(text, isDivider)
	if slices.EqualFunc(got, want, strings.EqualFold) {
		return "", nil
	}
	if len(got) != len(want) {
		return fmt.Sprintf("found %d words, want %d", len(got), len(want)), nil
	}
	for i := range got {
		if !strings.EqualFold(got[i], want[i]) {
			return fmt.Sprintf("%.40q is not it", got[i]), nil
		}
	}
	return "", nil
}

// Answer returns the answer as text that Check accepts.
func (e *Exercise) Answer() (string, error) {
	if e.Words != nil {
		words, err := e.Words()
		return strings.Join(words, ","), err
	}
	numbers, err := e.Numbers()
	texts := make([]string, len(numbers))
	for i, v := range numbers {
		texts[i] = strconv.FormatFloat(v, 'g', 6, 64)
	}
	return strings.Join(texts, ","), err
}

func isDivider(r rune) bool { return r == ',' || r == ' ' || r == ';' || r == '\t' || r == '\n' }

// parse parses numbers and fractions that are separated by commas or spaces.
func parse(text string) ([]float64, error) {
	var all []float64
	for _, part := range strings.FieldsFunc(text, isDivider) {
		above, below, fraction := strings.Cut(part, "/")
		v, err := strconv.ParseFloat(above, 64)
		if err == nil && fraction {
			var w float64
			w, err = strconv.ParseFloat(below, 64)
			v /= w
		}
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("answer: found %.40q, want numbers with commas between them, such as 1,0.5,-3/4",
				part)
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("answer: found no number in %.40q, want numbers with commas between them", text)
	}
	return all, nil
}

// near reports whether all numbers agree within tolerance.
func near(got, want []float64) bool {
	return slices.EqualFunc(got, want, close4)
}

func close4(got, want float64) bool { return math.Abs(got-want) <= tolerance*max(math.Abs(want), 1e-3) }

// compare describes what is wrong if the number of numbers is right.
func compare(got, want []float64) string {
	all := func(relation func(w float64) float64) bool {
		changed := make([]float64, len(want))
		for i, w := range want {
			changed[i] = relation(w)
		}
		return near(got, changed)
	}
	switch {
	case all(func(w float64) float64 { return -w }):
		return "the size is right, the sign is not"
	case all(func(w float64) float64 { return 2 * w }):
		return "twice too large"
	case all(func(w float64) float64 { return w / 2 }):
		return "half of what it should be"
	case all(func(w float64) float64 { return 1 / w }):
		return "that is one over the answer"
	}
	for i, w := range want {
		if close4(got[i], w) {
			continue
		}
		which := ""
		if len(want) > 1 {
			which = fmt.Sprintf("number %d of %d: ", i+1, len(want))
		}
		off := math.Abs(got[i] - w)
		switch {
		case off < 0.01*math.Abs(w):
			return which + "close, but not to four digits"
		case got[i]*w < 0:
			return which + "the sign is not right"
		case got[i] > w:
			return which + "too large"
		default:
			return which + "too small"
		}
	}
	return ""
}
