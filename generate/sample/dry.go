package sample

import (
	"math"
	"strings"
)

// DRY ("don't repeat yourself") is a penalty on tokens that would continue a repetition: if the last n tokens also
// occur earlier in the text, followed by token x, and n is at least AllowedLength, then
//
//	logit[x] -= Multiplier · Base^(n - AllowedLength), n the largest of all such places
//
// A repeated sequence cannot extend across a text of Breakers, and no token that contains one is penalized. Source:
// github.com/oobabooga/text-generation-webui, pull request 5677. The defaults are the same as there and in llama.cpp.
type DRY struct {
	Multiplier    float64  `json:"multiplier"` // 0: no penalty
	Base          float64  `json:"base"`
	AllowedLength int      `json:"allowed_length"`
	Last          int      `json:"last"` // number of tokens at the end of the text that count; 0 for all
	Breakers      []string `json:"breakers"`
	// Decode appends the text of tokens, for Breakers.
	Decode func(dst []byte, ids []int32) []byte `json:"-"`
}

// SetDefaults sets the usual options, and a multiplier of 0.
func (d *DRY) SetDefaults() {
	*d = DRY{Base: 1.75, AllowedLength: 2, Breakers: []string{"\n", ":", `"`, "*"}}
}

// penalties calls subtract with each token that is penalized, and its penalty. It finds the length of the common suffix
// of the text and each of its prefixes in one pass over the reversed text (the Z-algorithm; Gusfield 1997, §1.4).
func (d *DRY) penalties(history []int32, subtract func(token int32, by float64) error) error {
	if d.Last > 0 && len(history) > d.Last {
		history = history[len(history)-d.Last:]
	}
	n := len(history)
	from := func(i int) int32 { return history[n-1-i] } // i-th token from the end
	shared := make([]int, n)                            // shared[i]: length of the common suffix with history[:n-i]
	left, right := 0, 0
	for i := 1; i < n; i++ {
		if i < right {
			shared[i] = min(right-i, shared[i-left])
		}
		for i+shared[i] < n && from(shared[i]) == from(i+shared[i]) {
			shared[i]++
		}
		if i+shared[i] > right {
			left, right = i, i+shared[i]
		}
	}
	longest := map[int32]int{}
	most := 0
	var order []int32
	for i := 1; i < n; i++ {
		if shared[i] < max(1, d.AllowedLength) {
			continue
		}
		next := from(i - 1)
		if longest[next] == 0 {
			order = append(order, next)
		}
		longest[next] = max(longest[next], shared[i])
		most = max(most, shared[i])
	}
	most = d.unbroken(history[n-most:])
	for _, token := range order {
		length := min(longest[token], most)
		if length < max(1, d.AllowedLength) || d.broken(d.text(token)) {
			continue
		}
		by := d.Multiplier * math.Pow(d.Base, float64(length-d.AllowedLength))
		if err := subtract(token, min(by, math.MaxFloat32)); err != nil {
			return err
		}
	}
	return nil
}

func (d *DRY) text(token int32) string {
	if d.Decode == nil {
		return ""
	}
	return string(d.Decode(nil, []int32{token}))
}

// broken reports whether a text contains one of Breakers.
func (d *DRY) broken(text string) bool {
	for _, b := range d.Breakers {
		if strings.Contains(text, b) {
			return true
		}
	}
	return false
}

// unbroken returns how many of the last tokens contain none of Breakers.
func (d *DRY) unbroken(last []int32) int {
	text, longest := "", 0
	for _, b := range d.Breakers {
		longest = max(longest, len(b))
	}
	for n := range last {
		own := d.text(last[len(last)-1-n])
		if text = own + text; d.broken(text) {
			return n
		}
		text = text[:min(len(text), longest)] // a breaker that begins in an earlier token contains no more than this
	}
	return len(last)
}
