package model

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/config"
)

// Signal describes the data that a network was trained on, as needed to use the network on new data. Unknown parts are
// nil.
type Signal struct {
	Inputs  []Channel `json:"inputs,omitempty"`  // input numbers of a position
	Outputs []Channel `json:"outputs,omitempty"` // output numbers
	Classes []string  `json:"classes,omitempty"` // or the names of the classes whose scores are the outputs
	// About holds further information on the data, in the format of the package that trained the network, such as
	// package fit.
	About json.RawMessage `json:"about,omitempty"`
}

// Columns reports whether the network knows the columns of its data, as a network of package fit does.
func (s *Signal) Columns() bool { return s != nil && len(s.About) > 0 }

// Channel describes an input or output number and its scale.
type Channel struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit,omitempty"`
	Low       float64 `json:"low"` // range of the numbers in training; both 0 if unknown
	High      float64 `json:"high"`
	Mean      float64 `json:"mean"` // the network's value of a number x is (x - Mean)/Deviation
	Deviation float64 `json:"deviation"`
}

// Scale returns the network's input for the number x.
func (c *Channel) Scale(x float64) float32 { return float32((x - c.Mean) / c.Deviation) }

// Unscale returns the number that the output y stands for.
func (c *Channel) Unscale(y float32) float64 { return float64(y)*c.Deviation + c.Mean }

// Usual reports whether x lies in the range seen in training, or outside it by at most half its width.
func (c *Channel) Usual(x float64) bool {
	room := (c.High - c.Low) / 2
	return room == 0 || c.Low-room <= x && x <= c.High+room
}

// String returns a description of the channel, such as "voltage, -2.3 to 3.1 mV".
func (c *Channel) String() string {
	text := c.Name
	if c.High > c.Low {
		text += fmt.Sprintf(", %.4g to %.4g", c.Low, c.High)
	}
	if c.Unit != "" {
		text += " " + c.Unit
	}
	return text
}

// validate reports the parts of a signal that do not fit a network.
func (s *Signal) validate(c *NetworkConfig, p *config.Problems) {
	for _, part := range []struct {
		key       string
		got, want int
	}{
		{"signal.inputs", len(s.Inputs), c.Channels}, {"signal.outputs", len(s.Outputs), c.Outputs},
		{"signal.classes", len(s.Classes), c.Outputs},
	} {
		if part.got != 0 && part.got != part.want {
			p.Addf(part.key, "found %d, want %d, or none", part.got, part.want)
		}
	}
	for i, ch := range slices.Concat(s.Inputs, s.Outputs) {
		finite := true
		for _, x := range []float64{ch.Low, ch.High, ch.Mean, ch.Deviation} {
			finite = finite && !math.IsNaN(x) && !math.IsInf(x, 0)
		}
		if !finite || ch.Deviation <= 0 {
			p.Addf("signal", "channel %d, %.40q: found the deviation %v, want finite numbers, and a deviation above 0",
				i, ch.Name, ch.Deviation)
		}
	}
	for _, name := range s.Classes {
		if strings.ContainsAny(name, "\n\r\t") {
			p.Addf("signal.classes", "found %.40q, want names without tabs and line ends", name)
		}
	}
}
