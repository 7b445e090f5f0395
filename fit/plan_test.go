package fit

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/table"
)

// FuzzPlan checks that a plan in a network's folder encodes a row or is an error, whatever it contains.
func FuzzPlan(f *testing.F) {
	c := Column{Column: table.Column{Name: "x", Kind: table.Number}, In: true, Target: true, Deviation: 1, Change: 1}
	for _, p := range []Plan{
		{Version: planVersion, Task: Next, Columns: []Column{c}, Levels: []float64{0.5}},
		{Version: planVersion, Task: Forecast, Columns: []Column{c}, Levels: []float64{0.1, 0.5, 0.9}, Lookback: 3,
			Horizon: 2,
			Time:    &table.Column{Name: "t", Kind: table.Time}, Calendar: []string{"hour"}, Irregular: true, Step: 1,
			Linear: &linear{Order: 2, Weights: [][]float32{{1, 2, 3, 4}}}, Widen: [][][]float64{{{1}}}, Season: 2,
			Use: "ets", Contenders: []*Contender{{Name: "network"}, {Name: "last", Fitted: []byte("{}")},
				{Name: "seasonal", Fitted: []byte("{}"), Off: [][][]float64{{{-1, 0, 1}}}},
				{Name: "linear", Fitted: []byte(`{"own":{"order":1,"weights":[[1,2]]}}`)},
				{Name: "ets", Fitted: []byte(`{"models":[{"error":"M","trend":"Ad","season":"M","period":2}]}`)},
				{Name: "theta", Fitted: []byte(`{"models":[{"alpha":0.5,"period":2,"relative":true}]}`)}}},
		{Version: planVersion, Task: Steps, Columns: []Column{{Column: table.Column{Name: "y", Kind: table.Category},
			Target: true, Classes: []string{"a", "b"}}, c}, Levels: nil},
	} {
		f.Add([]byte(p.about()))
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		p := &Plan{}
		if json.Unmarshal(text, p) != nil || len(p.Columns) > 100 || p.Horizon > 100 || p.Lookback > 100 {
			return
		}
		outputs := len(p.targets()) * len(p.Levels)
		if names, ok := p.classes(); ok {
			outputs = len(names)
		}
		net := &model.Network{Config: model.NetworkConfig{Channels: len(p.inputs()), Outputs: outputs,
			Everywhere: !p.whole(), Signal: &model.Signal{About: text}}}
		q, err := PlanOf(net)
		if err != nil {
			return
		}
		m, err := newModel(net, q)
		if err != nil {
			return
		}
		rows := make([]float32, (q.Lookback+q.Horizon+1)*q.width())
		step := -1
		if q.Task == Forecast {
			m.enc.from(rows[:q.Lookback*q.width()])
			step = q.Horizon - 1
		}
		if got := m.enc.row(nil, rows[:q.width()], math.NaN(), step, nil); len(got) != net.Config.Channels {
			panic("a row of another length")
		}
		for _, c := range q.Contenders[min(1, len(q.Contenders)):] {
			n := 1
			if q.Task == Forecast {
				n = q.Horizon
			}
			if len(c.outputs(m.enc, rows, n)) != n*outputs {
				panic("outputs of another length")
			}
		}
		if _, ok := q.classes(); !ok {
			for k := range q.targets() {
				m.quantiles(m.enc, make([]float32, outputs), k, 0, 0)
			}
		}
	})
}

// TestScaleOfForecasts checks that numbers are scaled by the rows that a forecast sees, or by all rows if the horizon
// is longer than those. The user's setting has priority.
func TestScaleOfForecasts(t *testing.T) {
	for _, one := range []struct {
		scale   string
		horizon int
		local   bool
	}{{"auto", 48, true}, {"auto", 49, false}, {"window", 49, true}, {"series", 24, false}} {
		f := &frame{plan: &Plan{Task: Forecast}, seqs: []sequence{{hi: 1000}}}
		c := DefaultConfig()
		c.Scale, c.Horizon, c.Lookback, c.Season = one.scale, one.horizon, 48, 1
		if err := f.settleLengths(&c); err != nil || f.plan.Local != one.local {
			t.Errorf("%+v: found %t, %v", one, f.plan.Local, err)
		}
	}
}

// TestPlanNeedsItsNetwork checks that a plan is an error if its contenders do not include the network, or if it names
// one that does not exist.
func TestPlanNeedsItsNetwork(t *testing.T) {
	c := Column{Column: table.Column{Name: "x", Kind: table.Number}, In: true, Target: true, Deviation: 1, Change: 1}
	for want, all := range map[string][]*Contender{
		"":                                    {{Name: "network"}, {Name: "last", Fitted: []byte("{}")}},
		"want the network first":              {{Name: "last", Fitted: []byte("{}")}},
		"found another order":                 {{Name: "network"}, nil},
		`found "seasonal" among what predict`: {{Name: "network"}, {Name: "seasonal", Fitted: []byte("{}")}},
		"intervals of another shape": {{Name: "network"}, {Name: "last", Fitted: []byte("{}"),
			Off: [][][]float64{{{1, 2}}}}},
	} {
		p := Plan{Version: planVersion, Task: Next, Columns: []Column{c}, Levels: []float64{0.5}, Contenders: all}
		_, err := PlanOf(&model.Network{Config: model.NetworkConfig{Channels: 1, Outputs: 1, Everywhere: true,
			Signal: &model.Signal{About: p.about()}}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %q", err, want)
		}
	}
}
