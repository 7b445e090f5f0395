package experiment

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/hippo-ssm/hippo/model"
)

// StreamOptions selects the outputs to print.
type StreamOptions struct {
	Every   int  `json:"every" help:"positions from one printed line to the next; the last one is always printed"`
	Classes bool `json:"classes" help:"print the likeliest class and its probability instead of all outputs"`
	Check   bool `json:"check" help:"compare with the network's outputs for the whole sequence"`
	Scaled  bool `json:"scaled" help:"numbers go in and come out as the task scales them"`
	JSON    bool `json:"json" help:"print JSON objects with position and outputs, one a line"`
}

// streamer runs a network step by step and prints its outputs.
type streamer struct {
	m   *model.Network
	s   *model.Stream
	out *bufio.Writer
	opt StreamOptions
}

// Stream runs a network step by step and prints its outputs.
func Stream(ctx context.Context, m *model.Network, steps <-chan Step, out io.Writer, o StreamOptions) (err error) {
	s, err := m.NewStream()
	if err != nil {
		return err
	}
	w := &streamer{m: m, s: s, out: bufio.NewWriter(out), opt: o}
	defer func() { err = errors.Join(err, w.out.Flush()) }()
	var whole model.Input
	var all, last []float32 // outputs so far, for the check
	printed := true
	for {
		var step Step
		var more bool
		select {
		case <-ctx.Done():
			return ctx.Err()
		case step, more = <-steps:
		}
		if !more {
			break
		}
		if step.err != nil {
			return step.err
		}
		if step.row != nil {
			last, err = s.Values(step.row...)
		} else {
			last, err = s.Tokens(step.token)
		}
		if err != nil {
			return err
		}
		if o.Check {
			whole.Values = append(whole.Values, step.row...)
			if step.row == nil {
				whole.Tokens = append(whole.Tokens, step.token)
			}
			if m.Config.Everywhere {
				all = append(all, last...)
			}
		}
		if printed = s.Position()%o.Every == 0; printed {
			w.print(last)
			if err := w.out.Flush(); err != nil {
				return err
			}
		}
	}
	if !printed {
		w.print(last)
	}
	if !o.Check {
		return nil
	}
	if !m.Config.Everywhere {
		all = last
	}
	whole.Lengths = []int{s.Position()}
	fmt.Fprintf(w.out, "step by step and at once, outputs of %d positions differ by at most %.2g\n", s.Position(),
		apart(m, whole, all))
	return nil
}

// apart returns the largest difference between got and the network's outputs for in.
func apart(m *model.Network, in model.Input, got []float32) float64 {
	most := 0.0
	for i, want := range m.Predict(in) {
		most = max(most, math.Abs(float64(got[i]-want)))
	}
	return most
}

// print prints the outputs at the current position.
func (w *streamer) print(y []float32) {
	position := w.s.Position()
	if w.opt.Classes {
		class, p := likeliest(y)
		w.printClass(position, class, p)
		return
	}
	values := w.unscaled(y)
	if w.opt.JSON {
		text, _ := json.Marshal(values) // finite numbers
		fmt.Fprintf(w.out, "{\"position\":%d,\"outputs\":%s}\n", position, text)
		return
	}
	fmt.Fprint(w.out, position)
	for _, x := range values {
		fmt.Fprintf(w.out, "\t%.6g", x)
	}
	fmt.Fprintln(w.out)
}

// printClass prints the most probable class, by name if it has one.
func (w *streamer) printClass(position, class int, p float64) {
	name := fmt.Sprint(class)
	if s := w.m.Config.Signal; s != nil && s.Classes != nil {
		name = s.Classes[class]
	}
	if w.opt.JSON {
		text, _ := json.Marshal(name) // a string
		fmt.Fprintf(w.out, "{\"position\":%d,\"class\":%d,\"name\":%s,\"probability\":%.6g}\n",
			position, class, text, p)
		return
	}
	fmt.Fprintf(w.out, "%d\t%d\t%.4f", position, class, p)
	if name != fmt.Sprint(class) {
		fmt.Fprintf(w.out, "\t%s", name)
	}
	fmt.Fprintln(w.out)
}

// unscaled returns the outputs in the units of the data, if the network knows them.
func (w *streamer) unscaled(y []float32) []float32 {
	values := make([]float32, len(y))
	for i, x := range y {
		values[i] = x
		if s := w.m.Config.Signal; s != nil && s.Outputs != nil && !w.opt.Scaled {
			values[i] = float32(s.Outputs[i].Unscale(x))
		}
	}
	return values
}

// likeliest returns the class with the highest score, and its probability under the softmax.
func likeliest(scores []float32) (class int, p float64) {
	for i, x := range scores {
		if x > scores[class] {
			class = i
		}
	}
	sum := 0.0
	for _, x := range scores {
		sum += math.Exp(float64(x - scores[class]))
	}
	return class, 1 / sum
}
