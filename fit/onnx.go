package fit

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/onnx"
)

// The forms of a network as an ONNX model.
const (
	ONNXWhole = "whole" // takes a sequence, returns its predictions
	ONNXStep  = "step"  // takes a row and a state, returns the prediction and the next state
)

// ONNXForms lists the forms. The first is the default.
var ONNXForms = []string{ONNXWhole, ONNXStep}

// ONNX returns the network of a run as an ONNX model, including all conversions: its inputs are numbers as they are in
// the data, its outputs predictions in the units of the data. The JSON text "hippo" of its metadata, an ONNXCard,
// describes both.
func ONNX(dir, form string) (file []byte, card *ONNXCard, err error) {
	if !slices.Contains(ONNXForms, form) {
		return nil, nil, fmt.Errorf("form: found %.40q, want one of %s", form, strings.Join(ONNXForms, ", "))
	}
	m, p, err := openNetwork(dir)
	if err != nil {
		return nil, nil, err
	}
	if file, card, err = onnxOf(m, p, form); err != nil {
		err = fmt.Errorf("%s: %w", dir, err)
	}
	return file, card, err
}

func onnxOf(m *model.Network, p *Plan, form string) (file []byte, card *ONNXCard, err error) {
	if p.Task == Fill {
		return nil, nil, fmt.Errorf("onnx: found the task %s, whose network looks ahead; want another task", p.Task)
	}
	net, err := onnx.NewNet(m)
	if err != nil {
		return nil, nil, err
	}
	x := &onnxModel{Plan: p, net: net, g: onnx.New("hippo"), step: form == ONNXStep, pool: m.Config.Pool}
	x.card = &ONNXCard{Form: form, Card: p.Card(), Calendar: p.Calendar, Alarm: p.Alarm}
	x.card.Classes, _ = p.classes()
	if p.uses() != useNetwork {
		x.card.Rival = p.contender(p.Use).Title
	}
	x.declare()
	if p.Task == Forecast {
		err = x.forecast()
	} else {
		err = x.rows()
	}
	if err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(x.card)
	if err != nil { // numbers are finite
		panic(err)
	}
	doc := fmt.Sprintf("A network of hippo fit for the task %s, in the form %s.", p.Task, form)
	return x.g.Encode(doc, onnx.Meta{Name: "hippo", Text: string(text)}), x.card, nil
}

// ONNXCard describes an ONNX model.
type ONNXCard struct {
	Form string `json:"form"`
	Card
	Rows     []string    `json:"rows"`               // columns of the input rows
	Known    []string    `json:"known,omitempty"`    // columns of the input known
	Calendar []string    `json:"calendar,omitempty"` // columns of the input calendar
	Classes  []string    `json:"classes,omitempty"`  // classes of the output probabilities
	Alarm    float64     `json:"alarm,omitempty"`    // the score above which a row is unusual
	Rate     float64     `json:"rate,omitempty"`     // sampling rate of the input samples, in hertz
	State    []onnx.Part `json:"state,omitempty"`    // parts of the state, in order
	// Rival is what hippo predict uses instead of the network, because it was better on the validation set.
	Rival string `json:"rival,omitempty"`
}

// onnxModel builds the model of a plan.
type onnxModel struct {
	*Plan
	net  *onnx.Net
	g    *onnx.Graph
	card *ONNXCard
	step bool
	pool string

	columns            []int // columns of the input rows
	in, seconds, times onnx.Value
	known              []int // indices in columns of the columns of the input ahead
	ahead              onnx.Value

	carried []onnx.Value // parts of the next state
	before  int          // number of elements of the state that have been read
}

// declare adds the inputs.
func (x *onnxModel) declare() {
	length := onnx.Dim{Name: "length"}
	if x.step {
		length = onnx.Dim{N: 1}
	}
	for i := range x.Columns {
		c := &x.Columns[i]
		if !c.In && !(c.Target && (x.Task == Forecast || x.predictsNext())) {
			continue
		}
		if c.Known && c.In && !c.Target {
			x.known = append(x.known, len(x.columns))
			x.card.Known = append(x.card.Known, c.Name)
		}
		x.columns = append(x.columns, i)
		x.card.Rows = append(x.card.Rows, c.Name)
	}
	if x.in = x.frames(); x.in != "" {
		return
	}
	x.in = x.g.Input("rows", onnx.Double, "rows of the data, NaN where a value is missing; a category as the index of "+
		"its class: "+strings.Join(x.card.Rows, ", "), length, onnx.Dim{N: len(x.columns)})
	rows := length
	if x.Task == Forecast {
		rows = onnx.Dim{N: x.Lookback + x.Horizon}
		if len(x.known) > 0 {
			x.ahead = x.g.Input("known", onnx.Double, "what is known of the rows to come: "+
				strings.Join(x.card.Known, ", "), onnx.Dims(x.Horizon, len(x.known))...)
		}
	}
	if x.timeGoesIn() {
		x.seconds = x.g.Input("seconds", onnx.Double, "seconds since the row before, NaN before the first", rows)
	}
	if len(x.Calendar) > 0 {
		x.times = x.g.Input("calendar", onnx.Double, "the part of each cycle that has gone, 0 to 1: "+
			strings.Join(x.Calendar, ", "), rows, onnx.Dim{N: len(x.Calendar)})
	}
}

// stateName is the name of the state's input.
const stateName = "state"

// carry returns n numbers of the state before a row. Their values after the row must be added to carried.
func (x *onnxModel) carry(name string, n int) onnx.Value {
	x.card.State = append(x.card.State, onnx.Part{Name: name, Shape: []int{n}})
	from := x.before
	x.before += n
	return x.g.Slice(stateName, 0, x.g.Ints(from), x.g.Ints(x.before))
}

// rows adds the computation of a network that is not for forecasts.
func (x *onnxModel) rows() error {
	g := x.g
	encoded := x.encode(x.in, x.seconds, x.times, nil, false)
	var y onnx.Value
	var err error
	if x.step {
		x.card.State, x.before = slices.Clone(x.net.State), x.net.Size()
		var next onnx.Value
		next, y, err = x.net.Advance(g, 1, encoded, g.Slice(stateName, 0, g.Ints(0), g.Ints(x.before)))
		x.carried = append(x.carried, next)
	} else {
		y, err = x.net.All(g, encoded)
	}
	if err != nil {
		return err
	}
	if x.whole() {
		y = x.net.Head(g, x.pooled(y))
	}
	rows := onnx.Dim{Name: "length"}
	if x.step || x.whole() {
		rows = onnx.Dim{N: 1}
	}
	if names, ok := x.classes(); ok {
		x.probabilities(y, names, rows)
	} else {
		x.numbers(y, rows)
	}
	if x.step {
		g.Input(stateName, onnx.Float, "the state before the row, zeros before the first", onnx.Dim{N: x.before})
		g.Output("next_state", g.Concat(0, x.carried...), onnx.Float, "the state after the row",
			onnx.Dim{N: x.before})
	}
	return nil
}

// probabilities adds the probabilities of the classes, and the class that Prediction.Class chooses.
func (x *onnxModel) probabilities(y onnx.Value, names []string, rows onnx.Dim) {
	g := x.g
	if x.Weighted {
		var logs []float64
		for _, w := range x.Weights {
			logs = append(logs, math.Log(w))
		}
		y = g.Op("Sub", y, g.Floats(logs, 1, len(logs)))
	}
	p := g.With("Softmax", []onnx.Attr{{Name: "axis", Value: 1}}, y)
	doc := "of the classes: " + strings.Join(names, ", ")
	g.Output("probabilities", p, onnx.Float, doc, rows, onnx.Dim{N: len(names)})
	if x.Weights != nil {
		p = g.Op("Mul", p, g.Floats(x.Weights, 1, len(names)))
	}
	best := g.With("ArgMax", []onnx.Attr{{Name: "axis", Value: 1}, {Name: "keepdims", Value: 0}}, p)
	g.Output("class", best, onnx.Int64, "the index of the predicted class", rows)
}

// pooled returns the input of the head of a network with one output for a sequence, (1, d_model), computed from the
// outputs of the backbone.
func (x *onnxModel) pooled(y onnx.Value) onnx.Value {
	g := x.g
	switch {
	case x.pool != "mean":
		return g.Slice(y, 0, g.Ints(-1), g.Ints(1<<31-1))
	case !x.step:
		return g.With("ReduceMean", []onnx.Attr{{Name: "axes", Value: []int{0}}, {Name: "keepdims", Value: 1}}, y)
	}
	sum := g.Op("Add", x.carry("sum", x.net.Hidden()), g.Reshape(y, -1))
	n := g.Op("Add", x.carry("count", 1), g.Number(onnx.Float, 1))
	x.carried = append(x.carried, sum, n)
	return g.Reshape(g.Op("Div", sum, n), 1, -1)
}
