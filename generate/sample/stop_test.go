package sample

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// naiveStop cuts a whole text before the stop string that ends first; of several, before the longest.
func naiveStop(text string, stops []string) (before, found string) {
	end := len(text) + 1
	for _, s := range stops {
		i := strings.Index(text, s)
		if i >= 0 && (i+len(s) < end || i+len(s) == end && len(s) > len(found)) {
			end, found = i+len(s), s
		}
	}
	if found == "" {
		return text, ""
	}
	return text[:end-len(found)], found
}

// push passes a text through a matcher in pieces, and checks the output after each piece.
func push(t interface{ Fatalf(string, ...any) }, stops, pieces []string) (out, found string) {
	m, err := NewStopMatcher(stops...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	text, stopped := "", false
	for _, piece := range pieces {
		var b []byte
		b, stopped = m.Push([]byte(piece))
		out += string(b)
		text += piece
		if before, found := naiveStop(text, stops); found == "" {
			held := strings.TrimPrefix(before, out)
			if !strings.HasPrefix(before, out) || held != longestStart(before, stops) {
				t.Fatalf("after %q: passed on %q, held %q, want to hold %q", text, out,
					held, longestStart(before, stops))
			}
		}
	}
	if stopped != (m.Stop() != "") {
		t.Fatalf("stopped is %v, Stop returns %q", stopped, m.Stop())
	}
	return out + string(m.Flush()), m.Stop()
}

// longestStart returns the longest suffix of text that is a prefix of a stop string.
func longestStart(text string, stops []string) string {
	for i := range len(text) {
		for _, s := range stops {
			if strings.HasPrefix(s, text[i:]) {
				return text[i:]
			}
		}
	}
	return ""
}

func TestStopMatcher(t *testing.T) {
	for _, c := range []struct {
		stops, pieces []string
		out, found    string
	}{
		{nil, []string{"any", " text"}, "any text", ""},
		{[]string{"\n\n"}, []string{"a\n", "b\n", "\nc"}, "a\nb", "\n\n"},
		{[]string{"END"}, []string{"the E", "N", "d of EN"}, "the ENd of EN", ""},
		{[]string{"END"}, []string{"EEN", "END"}, "EEN", "END"},
		{[]string{"aab"}, []string{"aaa", "ab"}, "aa", "aab"},
		{[]string{"abcd", "bc"}, []string{"xab", "cd"}, "xa", "bc"},
		{[]string{"bc", "abc"}, []string{"xab", "c"}, "x", "abc"},
		{[]string{"é"}, []string{"caf\xc3", "\xa9!"}, "caf", "é"},
		{[]string{"é"}, []string{"caf\xc3", "\xa8"}, "cafè", ""},
		{[]string{"stop"}, []string{"", "stop", "more"}, "", "stop"},
	} {
		out, found := push(t, c.stops, c.pieces)
		if out != c.out || found != c.found {
			t.Errorf("%q in %q: got %q and %q, want %q and %q", c.stops, c.pieces, out, found, c.out, c.found)
		}
	}
	if _, err := NewStopMatcher("a", ""); err == nil {
		t.Error("empty stop string: found no error")
	}
}

func TestStopMatcherLikeIndex(t *testing.T) {
	word := func(pattern string) *rapid.Generator[string] { return rapid.StringMatching(pattern) }
	rapid.Check(t, func(t *rapid.T) {
		// Two letters make near misses and overlaps common.
		stops := rapid.SliceOfN(word(`[ab]{1,6}`), 0, 4).Draw(t, "stops")
		pieces := rapid.SliceOfN(word(`[ab]{0,5}`), 0, 12).Draw(t, "pieces")
		out, found := push(t, stops, pieces)
		wantOut, wantFound := naiveStop(strings.Join(pieces, ""), stops)
		if out != wantOut || found != wantFound {
			t.Fatalf("got %q and %q, want %q and %q", out, found, wantOut, wantFound)
		}
	})
}

func TestStopMatcherAllocatesNothing(t *testing.T) {
	m, err := NewStopMatcher("\n\nUser:", "<|endoftext|>")
	if err != nil {
		t.Fatal(err)
	}
	piece := []byte("some text\n\nUse")
	if n := testing.AllocsPerRun(100, func() { m.Push(piece) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzStopMatcher(f *testing.F) {
	f.Add("hello\n\nworld", "\n\n", "wor", 3)
	f.Add("aaab", "aab", "ab", 1)
	f.Fuzz(func(t *testing.T, text, a, b string, size int) {
		if a == "" || b == "" || size < 1 || len(text) > 200 {
			return
		}
		var pieces []string
		for i := 0; i < len(text); i += min(size, len(text)) {
			pieces = append(pieces, text[i:i+min(size, len(text)-i)])
		}
		out, found := push(t, []string{a, b}, pieces)
		wantOut, wantFound := naiveStop(text, []string{a, b})
		if out != wantOut || found != wantFound {
			t.Errorf("got %q and %q, want %q and %q", out, found, wantOut, wantFound)
		}
	})
}
