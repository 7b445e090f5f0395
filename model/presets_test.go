package model

import (
	"math"
	"strings"
	"testing"
)

// TestTinyFamily checks that every mixer has a tiny preset, which uses that mixer alone and whose size differs from
// tiny's by at most a twentieth.
func TestTinyFamily(t *testing.T) {
	count := func(name string) (Config, float64) {
		c, err := Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		c.VocabSize = 256
		n, err := c.CountParams()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return c, float64(n)
	}
	_, want := count("tiny")
	for _, mixer := range MixerNames() {
		c, got := count(mixer + "-tiny")
		if math.Abs(got/want-1) > 0.05 {
			t.Errorf("%s-tiny has %.0f parameters, want %.0f within 5 %%", mixer, got, want)
		}
		plan, err := c.Plan()
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range plan {
			if name, _, _ := ParseEntry(entry); name != mixer {
				t.Errorf("%s-tiny has a layer of %s", mixer, entry)
			}
		}
	}
	if _, err := Preset("gss-tyny"); err == nil || !strings.Contains(err.Error(), "did you mean gss-tiny?") {
		t.Errorf("a name with a slip: %v", err)
	}
}
