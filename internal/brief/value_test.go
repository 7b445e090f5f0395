package brief

import (
	"strings"
	"testing"
)

func TestValue(t *testing.T) {
	for want, v := range map[string]any{"nothing": nil, "7": uint64(7), "-1": float64(-1), "true": true, "text": "text",
		"a list of 3": []uint64{1, 2, 3}} {
		if got := Value(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	if got := Value(strings.Repeat("long ", 100)); len(got) > 120 || !strings.HasPrefix(got, "long long") {
		t.Errorf("a long text: %q", got)
	}
}
