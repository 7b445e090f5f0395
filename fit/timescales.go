package fit

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/explain/anatomy"
	"github.com/hippo-ssm/hippo/table"
)

// TimeScales compares how far back a network looks with the time scales of its data.
type TimeScales struct {
	Summary string         `json:"said"`                   // a summary sentence
	Step    float64        `json:"step_seconds,omitempty"` // from row to row, 0 if unknown
	Window  int            `json:"window"`                 // rows over which kernels are measured: the longest window
	Cut     bool           `json:"cut,omitempty"`          // windows are longer than that
	Network []NetworkScale `json:"network"`
	Data    []DataScale    `json:"data"`

	// Of describes the data whose correlation is given at Lags, in rows.
	Of          string    `json:"of,omitempty"`
	Lags        []int     `json:"lags"`
	Correlation []float64 `json:"correlation,omitempty"`
}

// Values of NetworkScale.Of.
const (
	Modes   = "modes"   // modes of a state: their time constants -1/ln|ā|, after which they have decayed to 1/e
	Kernels = "kernels" // kernels of the channels: the lag up to which 90 % of each one's energy is, in a window
	All     = "all"     // all that a layer without a state reads: the whole window
)

// kernelShare is the share of a kernel's energy that defines its reach.
const kernelShare = 0.9

// NetworkScale describes how far back a part of a layer looks.
type NetworkScale struct {
	Layer   int     `json:"layer"` // from 0
	Kind    string  `json:"kind"`  // its mixer
	Part    string  `json:"part,omitempty"`
	Of      string  `json:"of"`
	Count   int     `json:"count"` // number of modes or kernels
	Rows    Spread  `json:"rows"`
	Seconds *Spread `json:"seconds,omitempty"`
	// Left is the share of the energy at each of TimeScales.Lags and further back: the mean over kernels or modes.
	Left []float64 `json:"left"`
}

// Spread holds the quantiles 0.1, 0.5 and 0.9 of lengths, and the maximum.
type Spread struct {
	Low     Reach `json:"low"`
	Median  Reach `json:"median"`
	High    Reach `json:"high"`
	Longest Reach `json:"longest"`
}

// Reach is a length of time. It is infinite, null in JSON, if nothing fades.
type Reach float64

// MarshalJSON implements json.Marshaler.
func (r Reach) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(r), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(r))
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Reach) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*r = Reach(math.Inf(1))
		return nil
	}
	return json.Unmarshal(text, (*float64)(r))
}

// DataScale is a lag at which data repeats, or at which its correlation has faded.
type DataScale struct {
	Name    string  `json:"name"` // as text: "1 day", "24 rows"
	Repeats bool    `json:"repeats"`
	Rows    int     `json:"rows"`
	Seconds float64 `json:"seconds,omitempty"`
	// Correlation is the peak at this lag if the data repeats; otherwise the correlation falls below 1/e here.
	Correlation float64 `json:"correlation,omitempty"`
}

// kernelNumbers is the maximum number of taps of a layer's kernels.
const kernelNumbers = 1 << 22

// timeScales measures the trained network and the training part.
func (j *job) timeScales(ctx context.Context) (*TimeScales, error) {
	p := j.f.plan
	width := j.work.Net.Config.Model.DModel
	s := &TimeScales{Window: max(2, min(j.work.Set.MaxLength, kernelNumbers/width)), Data: []DataScale{}}
	s.Cut = s.Window < j.work.Set.MaxLength
	if !p.Irregular {
		s.Step = p.Step
	}
	parts := slices.Clone(j.train.parts)
	for i := range parts {
		if p.Task == Forecast { // windows start after the first rows
			parts[i].lo = j.f.seqs[parts[i].seq].lo
		}
	}
	s.ofData(j.f, parts)
	subject := anatomy.OfNetwork(j.work.Net)
	subject.Taps(s.Window)
	a, err := subject.Examine(ctx, "network", false)
	if err != nil {
		return nil, err
	}
	for i := range a.Layers {
		s.ofLayer(i, &a.Layers[i])
	}
	s.Summary = s.sentence()
	return s, nil
}

// measured returns the columns whose correlation is computed: the predicted ones or, if there is one target for a whole
// sequence, the inputs.
func (p *Plan) measured() (at []int) {
	for i := range p.Columns {
		c := &p.Columns[i]
		if c.Target != p.whole() && (c.Target || c.In) && (c.Kind == table.Number || c.Kind == table.Category) {
			at = append(at, i)
		}
	}
	return at
}

// drawnLags is the lag up to which all lags are stored. Larger lags are about 1/128 of themselves apart.
const drawnLags = 128

// ofData determines the scales of some rows, and the lags to store. If slow changes hide what repeats, it uses the
// changes from row to row.
func (s *TimeScales) ofData(f *frame, parts []segment) {
	var r []float64
	var repeats []int
	forgets := 0
	if columns := f.plan.measured(); len(columns) > 0 {
		name := f.plan.Columns[columns[0]].Name
		if len(columns) > 1 {
			name = fmt.Sprintf("%d columns", len(columns))
		}
		var n float64
		r, n = f.correlation(parts, columns, false)
		forgets, repeats = fades(r), periods(r, n)
		if r != nil {
			s.Of = name
		}
		if changes, n := f.correlation(parts, columns, true); len(repeats) == 0 {
			if found := periods(changes, n); len(found) > 0 {
				r, repeats, s.Of = changes, found, "the changes of "+name
			}
		}
	}
	if n := len(repeats); n > 0 {
		r = r[:min(len(r), max(s.Window, 3*repeats[n-1]+1))]
	}
	for k := 0; k < max(s.Window, len(r)); k += 1 + k/drawnLags {
		s.Lags = append(s.Lags, k)
	}
	s.Lags = append(s.Lags, repeats...)
	slices.Sort(s.Lags)
	s.Lags = slices.Compact(s.Lags)
	for _, k := range s.Lags {
		if k < len(r) {
			s.Correlation = append(s.Correlation, round4(r[k]))
		}
	}
	add := func(rows int, again bool) {
		d := DataScale{Name: s.span(float64(rows)), Repeats: again, Rows: rows, Seconds: s.Step * float64(rows)}
		if again {
			d.Correlation = round4(r[rows])
		}
		s.Data = append(s.Data, d)
	}
	if forgets > 0 {
		add(forgets, false)
	}
	for _, k := range repeats {
		add(k, true)
	}
}

// drawnModes is the maximum number of modes from which the fading of a state is drawn.
const drawnModes = 4096

// ofLayer adds how far back the parts of a layer look.
func (s *TimeScales) ofLayer(i int, l *anatomy.Layer) {
	for k := range l.Systems {
		modes := l.Systems[k].TimeConstants()
		if len(modes) == 0 {
			continue
		}
		left, drawn := make([]float64, len(s.Lags)), some(len(modes), drawnModes)
		for n, lag := range s.Lags {
			for _, k := range drawn {
				left[n] += math.Exp(-2*float64(lag)/modes[k]) / float64(len(drawn))
			}
		}
		s.add(NetworkScale{Layer: i, Kind: l.Kind, Part: l.Systems[k].Part, Of: Modes, Left: left}, modes)
	}
	for k := range l.Kernels {
		kernel := &l.Kernels[k]
		reach := kernel.Reach(kernelShare)
		if len(reach) == 0 {
			continue
		}
		all := kernel.Left()
		left := make([]float64, len(s.Lags))
		for n, lag := range s.Lags {
			if lag < len(all) {
				left[n] = all[lag]
			}
		}
		s.add(NetworkScale{Layer: i, Kind: l.Kind, Part: kernel.Name, Of: Kernels, Left: left}, reach)
	}
	if len(l.Systems)+len(l.Kernels) == 0 {
		left := make([]float64, len(s.Lags))
		for n, lag := range s.Lags {
			left[n] = float64(bit(lag < s.Window))
		}
		s.add(NetworkScale{Layer: i, Kind: l.Kind, Of: All, Left: left}, []float64{float64(s.Window)})
	}
}

// add adds lengths, which must be in ascending order.
func (s *TimeScales) add(n NetworkScale, rows []float64) {
	n.Count = len(rows)
	at := func(q float64) Reach {
		x := rows[min(len(rows)-1, int(q*float64(len(rows))))]
		if !math.IsInf(x, 0) {
			x = round4(x)
		}
		return Reach(x)
	}
	n.Rows = Spread{at(0.1), at(0.5), at(0.9), at(1)}
	if x := Reach(s.Step); x > 0 {
		n.Seconds = &Spread{x * n.Rows.Low, x * n.Rows.Median, x * n.Rows.High, x * n.Rows.Longest}
	}
	for k := range n.Left {
		n.Left[k] = round4(n.Left[k])
	}
	s.Network = append(s.Network, n)
}

// long distinguishes kernels of systems and long filters from short filters.
func (n *NetworkScale) long() bool { return n.Of == Kernels && !strings.HasSuffix(n.Part, "conv") }

// main returns the part of a layer that shows how far back it looks: its long kernels or, if its systems depend on the
// input, its modes. If there are several, it returns the one with the longest reach. It returns nil if nothing is known
// about the layer.
func (s *TimeScales) main(layer int) (main *NetworkScale) {
	for i := range s.Network {
		n := &s.Network[i]
		if n.Layer == layer && (main == nil || n.long() && !main.long() ||
			n.long() == main.long() && n.Rows.Longest > main.Rows.Longest) {
			main = n
		}
	}
	return main
}

// furthest returns the main part of the layer that looks furthest back.
func (s *TimeScales) furthest() (furthest *NetworkScale) {
	for i := range s.Network {
		n := s.main(s.Network[i].Layer)
		if furthest == nil || n.Rows.Longest > furthest.Rows.Longest {
			furthest = n
		}
	}
	return furthest
}

// round4 rounds to four decimals.
func round4(x float64) float64 { return math.Round(x*1e4) / 1e4 }
