package sample

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// letters decodes tokens as letters, some of which are breakers.
func letters(dst []byte, ids []int32) []byte {
	for _, id := range ids {
		dst = append(dst, "abc\nxy"[id])
	}
	return dst
}

// naiveDRY follows the definition: for each earlier position of each token, it computes how much of the text before the
// position equals the end of the text.
func naiveDRY(d DRY, history []int32) map[int32]float64 {
	if d.Last > 0 {
		history = history[max(0, len(history)-d.Last):]
	}
	out, n := map[int32]float64{}, len(history)
	for token := range int32(6) {
		longest := 0
		for at := 1; at < n; at++ {
			same := 0
			for history[at] == token && same < at && history[at-1-same] == history[n-1-same] {
				same++
			}
			for same > 0 && slices.ContainsFunc(d.Breakers, func(b string) bool {
				return strings.Contains(string(letters(nil, history[n-same:])), b)
			}) {
				same--
			}
			longest = max(longest, same)
		}
		own := string(letters(nil, []int32{token}))
		if longest > 0 && longest >= d.AllowedLength && !slices.Contains(d.Breakers, own) {
			out[token] = d.Multiplier * math.Pow(d.Base, float64(longest-d.AllowedLength))
		}
	}
	return out
}

// TestDRY checks that the penalty follows the definition, for any text, and is subtracted from the logits.
func TestDRY(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := DRY{
			Multiplier: 0.5, Base: 1.75, AllowedLength: rapid.IntRange(0, 3).Draw(t, "allowed"),
			Last: rapid.IntRange(0, 12).Draw(t, "last"), Decode: letters,
			Breakers: rapid.SampledFrom([][]string{nil, {"\n"}, {"xy", "\n"}}).Draw(t, "breakers"),
		}
		history := rapid.SliceOfN(rapid.Int32Range(0, 5), 0, 24).Draw(t, "history")
		got := map[int32]float64{}
		if err := d.penalties(history, func(token int32, by float64) error {
			got[token] = by
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		want := naiveDRY(d, history)
		if len(got) != len(want) {
			t.Fatalf("%+v, %v: got %v, want %v", d, history, got, want)
		}
		for token, by := range want {
			if math.Abs(got[token]-by) > 1e-12 {
				t.Fatalf("%v: token %d: got %v, want %v", history, token, got[token], by)
			}
		}
	})
	// The text ends with abc, which was followed by a twice and by b once earlier: a and b are penalized by 2 ·
	// 3^(3-2).
	o := Options{DRY: DRY{Multiplier: 2, Base: 3, AllowedLength: 2, Decode: letters}}
	s := newSampler(t, o)
	history := []int32{0, 1, 2, 0, 4, 0, 1, 2, 1, 5, 0, 1, 2}
	for want, logits := range map[int32][]float32{
		4: {10, 9, 3, 0, 4.5, 0}, // 10 - 6 is less than 4.5
		0: {10, 9, 3, 0, 3.5, 0}, // and more than 3.5 and 9 - 6
	} {
		if id, err := s.Next(logits, history); err != nil || id != want {
			t.Errorf("%v: got %d, %v, want %d", logits, id, err, want)
		}
	}
	for _, d := range []DRY{{Multiplier: -1, Base: 2}, {Multiplier: math.NaN(), Base: 2}, {Multiplier: 1},
		{Multiplier: 1, Base: 2, AllowedLength: -1}, {Multiplier: 1, Base: 2, Last: -1}} {
		if _, err := New(Options{DRY: d}); err == nil || !strings.Contains(err.Error(), "dry_") {
			t.Errorf("%+v: got %v", d, err)
		}
	}
}

// TestDRYLong checks that a long text that repeats one token takes one pass, and that its penalty stays finite.
func TestDRYLong(t *testing.T) {
	d := DRY{}
	d.SetDefaults()
	d.Multiplier, d.Decode = 1, letters
	s := newSampler(t, Options{DRY: d})
	if id, err := s.Next([]float32{5, 1, 0, 0, 0, 0}, make([]int32, 100_000)); err != nil || id != 1 {
		t.Errorf("got %d, %v", id, err)
	}
}
