package verify

import (
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// drifting is a mixer that goes wrong at a position, by a factor: when it is read position by position, or always.
type drifting struct {
	mixer.Mixer
	from   int
	by     float64
	always bool
}

func (d drifting) Forward(t *autograd.Tape, u *tensor.Tensor, r *mixer.Rows) *tensor.Tensor {
	y := d.Mixer.Forward(t, u, r)
	if (d.always || u.Rows() == 1) && r.Start(0) >= d.from {
		return t.Scale(y, d.by)
	}
	return y
}

// TestCertificate: every recurrent mixer is certified over some positions, in spans that follow one another; one that
// goes wrong after 50 positions is not, from there on, nor is one that is NaN by definition.
func TestCertificate(t *testing.T) {
	for _, info := range model.Mixers() {
		if !info.Recurrent {
			continue
		}
		ends := map[string]int{}
		err := Certify(t.Context(), info, 60, func(s Span) error {
			if s.From != ends[s.Form]+1 || s.To < s.From {
				t.Errorf("%s: found a span from %d to %d after %d", s.Mixer, s.From, s.To, ends[s.Form])
			}
			if ends[s.Form] = s.To; !s.OK {
				t.Errorf("%s in %s, %d to %d: off by %.1e", s.Mixer, s.Form, s.From, s.To, s.Error)
			}
			return nil
		})
		if err != nil || ends["chunks"] != 60 || ends["steps"] != 60 {
			t.Errorf("%s: certified %v positions (%v), want 60", info.Name, ends, err)
		}
	}
	info, plain := mixer.H3Info, mixer.H3Info.New
	for _, d := range []drifting{{from: 50, by: 1.01}, {from: 50, by: math.NaN(), always: true}} {
		info.New = func(c mixer.Config) (_ mixer.Mixer, err error) {
			d.Mixer, err = plain(c)
			return d, err
		}
		if err := Certify(t.Context(), info, 90, func(s Span) error {
			if want := s.Form == "chunks" && !d.always || s.To <= 50; s.OK != want {
				t.Errorf("a mixer that goes wrong: %s, %d to %d is certified: %v", s.Form, s.From, s.To, s.OK)
			}
			if d.always && !s.OK && s.Error != farthest {
				t.Errorf("a mixer that becomes NaN: %s, %d to %d is off by %v", s.Form, s.From, s.To, s.Error)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}
