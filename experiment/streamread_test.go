package experiment

import (
	"math"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/model"
)

// FuzzReadSteps checks that any input of hippo task stream yields only rows of finite numbers or tokens of the
// vocabulary, and that errors begin with the name and line.
func FuzzReadSteps(f *testing.F) {
	f.Add("1 2\n3;-\n", 2, false)
	f.Add("255\n-1e30\n", 1, true)
	f.Add("0 1 2 99\n\nx", 0, false)
	f.Fuzz(func(t *testing.T, text string, channels int, scaled bool) {
		c := &model.NetworkConfig{Vocab: 20}
		if channels > 0 {
			c = &model.NetworkConfig{Channels: min(channels, 5), Signal: &model.Signal{}}
			for range c.Channels {
				c.Signal.Inputs = append(c.Signal.Inputs, model.Channel{Name: "x", Low: 0, High: 255, Mean: 33,
					Deviation: 0.5})
			}
		}
		notes, steps := 0, 0
		r := newStepReader(c, scaled, "file", func(string, ...any) { notes++ })
		err := r.read(strings.NewReader(text), func(s Step) bool {
			steps++
			if len(s.row) != c.Channels || c.Channels == 0 && (s.token < 0 || s.token >= 20) {
				t.Fatalf("sent %+v", s)
			}
			for _, x := range s.row {
				if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
					t.Fatalf("sent %v", s.row)
				}
			}
			return steps < 1000
		})
		if err == nil && steps == 0 || notes > 2 {
			t.Fatalf("%d steps and %d notes without an error", steps, notes)
		}
		if err != nil && !strings.HasPrefix(err.Error(), ", line ") && !strings.HasPrefix(err.Error(), ": ") {
			t.Fatalf("an error without a place: %v", err)
		}
	})
}
