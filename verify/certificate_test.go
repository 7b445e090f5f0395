package verify

import (
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// drifting is a mixer that goes wrong at a position when it is read position by position.
type drifting struct {
	mixer.Mixer
	from int
}

func (d drifting) Forward(t *autograd.Tape, u *tensor.Tensor, r *mixer.Rows) *tensor.Tensor {
	y := d.Mixer.Forward(t, u, r)
	if u.Rows() == 1 && r.Start(0) >= d.from {
		return t.Scale(y, 1.01)
	}
	return y
}

// TestCertificate: every recurrent mixer is certified over some positions, in spans that follow one another; one that
// goes wrong after 60 positions is not, from there on.
func TestCertificate(t *testing.T) {
	for _, info := range model.Mixers() {
		if !info.Recurrent {
			continue
		}
		ends := map[string]int{}
		err := Certify(t.Context(), info, 60, func(s Span) {
			if s.From != ends[s.Form]+1 || s.To < s.From {
				t.Errorf("%s: found a span from %d to %d after %d", s.Mixer, s.From, s.To, ends[s.Form])
			}
			if ends[s.Form] = s.To; !s.OK {
				t.Errorf("%s in %s, %d to %d: off by %.1e", s.Mixer, s.Form, s.From, s.To, s.Error)
			}
		})
		if err != nil || ends["chunks"] != 60 || ends["steps"] != 60 {
			t.Errorf("%s: certified %v positions (%v), want 60", info.Name, ends, err)
		}
	}
	info, plain := mixer.H3Info, mixer.H3Info.New
	info.New = func(c mixer.Config) (mixer.Mixer, error) {
		m, err := plain(c)
		return drifting{m, 50}, err
	}
	if err := Certify(t.Context(), info, 90, func(s Span) {
		if want := s.Form == "chunks" || s.To <= 50; s.OK != want {
			t.Errorf("a mixer that goes wrong: %s, %d to %d is certified: %v", s.Form, s.From, s.To, s.OK)
		}
	}); err != nil {
		t.Error(err)
	}
}
