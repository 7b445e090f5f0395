package request

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestIDsAreThoseOfJSON checks that any list of ids is read as encoding/json reads it.
func TestIDsAreThoseOfJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.StringMatching(`[1-9][0-9]{0,11}|0`), rapid.SampledFrom([]string{
			"-1", "1.5", "1e3", "null", `"7"`, "[8]", "999999999", "2147483647", "2147483648", "true",
		}))
		space := rapid.SampledFrom([]string{"", "", " ", "  ", "\n"})
		var b strings.Builder
		b.WriteString("[")
		for i := range rapid.IntRange(0, 6).Draw(t, "n") {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(space.Draw(t, "before") + id.Draw(t, "id") + space.Draw(t, "after"))
		}
		b.WriteString("]")
		text := rapid.SampledFrom([]string{b.String(), b.String(), "5", "null", "{}", "[", "", "5]", "[1,]", "[1 2]",
			"[1"}).
			Draw(t, "text")
		want, got := []int32{}, []int32{}
		wantErr := json.Unmarshal([]byte(text), &want)
		if err := readIDs([]byte(text), &got, "ids"); (err == nil) != (wantErr == nil) {
			t.Fatalf("%s: %v, want %v", text, err, wantErr)
		} else if err == nil && !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", text, got, want)
		}
	})
}
