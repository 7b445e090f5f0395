package main

import (
	"math"
	"strings"
	"unicode"

	"github.com/hippo-ssm/hippo/internal/testkit/logs"
)

// chosen holds the methods of the table. The score of each rival is the one that was best on seeds that are in no
// table.
var chosen = map[string]string{
	"hippo peak":                "hippo watch",
	"hippo excess":              "hippo watch --score excess",
	"hippo bits":                "hippo watch --score bits",
	"hippo without memory peak": "hippo watch --reset 1",
	"templates":                 "rare templates",
	"token 4-gram most":         "4-grams of tokens",
	"byte 6-gram most":          "6-grams of bytes",
}

// rivals returns the scores of the test lines by methods that count templates or n-grams in the ordinary lines.
func rivals(ordinary, test []logs.Line) map[string][]float64 {
	all := map[string][]float64{"templates": templates(ordinary, test)}
	for name, split := range map[string]func(string) []string{"token 4-gram": tokens, "byte 6-gram": singles} {
		n := 4
		if name == "byte 6-gram" {
			n = 6
		}
		g := newNGram(n)
		for _, l := range ordinary {
			g.line(split(l.Text), true)
		}
		g.context = nil
		for _, l := range test {
			bits := g.line(split(l.Text), false)
			sum, most := 0.0, 0.0
			for _, b := range bits {
				sum, most = sum+b, max(most, b)
			}
			all[name+" bits"] = append(all[name+" bits"], sum)
			all[name+" mean"] = append(all[name+" mean"], sum/float64(len(bits)))
			all[name+" most"] = append(all[name+" most"], most)
		}
	}
	return all
}

// templates scores a line by the rarity of its template: -log2 (count+1)/(lines+1). The template is the line with each
// run of digits replaced by one 0.
func templates(ordinary, test []logs.Line) (scores []float64) {
	count := map[string]int{}
	for _, l := range ordinary {
		count[masked(l.Text)]++
	}
	for _, l := range test {
		scores = append(scores, -math.Log2(float64(count[masked(l.Text)]+1)/float64(len(ordinary)+1)))
	}
	return scores
}

// masked returns a text with each run of digits replaced by one 0.
func masked(text string) string {
	var b strings.Builder
	digit := false
	for _, r := range text {
		was := digit
		if digit = unicode.IsDigit(r); !digit {
			b.WriteRune(r)
		} else if !was {
			b.WriteByte('0')
		}
	}
	return b.String()
}

// tokens returns the words, numbers and other characters of a line, with masked digits and without spaces, and the end
// of the line.
func tokens(text string) (all []string) {
	word := ""
	for _, r := range masked(text) + "\n" {
		if unicode.IsLetter(r) {
			word += string(r)
			continue
		}
		if word != "" {
			all, word = append(all, word), ""
		}
		if r != ' ' {
			all = append(all, string(r))
		}
	}
	return all
}

// singles returns the bytes of a line, with masked digits, and the end of the line.
func singles(text string) (all []string) {
	text = masked(text)
	for i := range len(text) {
		all = append(all, text[i:i+1])
	}
	return append(all, "\n")
}

// ngram is a model of n-grams with Witten-Bell smoothing (Chen and Goodman 1998, §2.4):
//
//	p(w|h) = (c(h,w) + d(h)·p(w|h')) / (c(h) + d(h)),
//
// where c(h) is the count of the history h, d(h) is the number of different tokens after it, and h' is h without its
// first token. The lowest order is the uniform distribution over the vocabulary and one unknown token. Histories extend
// across the ends of lines.
type ngram struct {
	n       int
	context []string
	counts  map[string]map[string]int // by history, joined
	totals  map[string]int
	vocab   map[string]bool
}

func newNGram(n int) *ngram {
	return &ngram{n: n, counts: map[string]map[string]int{}, totals: map[string]int{}, vocab: map[string]bool{}}
}

// line reads a line. It counts the line's n-grams, or returns the bits of its tokens.
func (g *ngram) line(words []string, count bool) (bits []float64) {
	for _, w := range words {
		p := 1 / float64(len(g.vocab)+1)
		for k := 0; k <= min(g.n-1, len(g.context)); k++ {
			h := strings.Join(g.context[len(g.context)-k:], "\x00")
			if count {
				if g.counts[h] == nil {
					g.counts[h] = map[string]int{}
				}
				g.counts[h][w]++
				g.totals[h]++
				continue
			}
			c, d := float64(g.totals[h]), float64(len(g.counts[h]))
			if c > 0 {
				p = (float64(g.counts[h][w]) + d*p) / (c + d)
			}
		}
		if count {
			g.vocab[w] = true
		} else {
			bits = append(bits, -math.Log2(p))
		}
		if g.context = append(g.context, w); len(g.context) >= g.n {
			g.context = g.context[1:]
		}
	}
	return bits
}
