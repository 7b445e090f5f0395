package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/model"
)

// streamer runs a network step by step and prints its outputs.
type streamer struct {
	m   *model.Network
	s   *model.Stream
	out *bufio.Writer
	opt *streamOptions
}

func (w *streamer) run(ctx context.Context, steps <-chan streamStep) error {
	defer w.out.Flush()
	opt := w.opt
	var whole model.Input
	var all, last []float32 // outputs so far, for the check
	printed := true
	for {
		var step streamStep
		var more bool
		select {
		case <-ctx.Done():
			return errInterrupted
		case step, more = <-steps:
		}
		if !more {
			break
		}
		if step.err != nil {
			return step.err
		}
		var err error
		if step.row != nil {
			last, err = w.s.Values(step.row...)
		} else {
			last, err = w.s.Tokens(step.token)
		}
		if err != nil {
			return err
		}
		if opt.check {
			whole.Values = append(whole.Values, step.row...)
			if step.row == nil {
				whole.Tokens = append(whole.Tokens, step.token)
			}
			if w.m.Config.Everywhere {
				all = append(all, last...)
			}
		}
		if printed = w.s.Position()%opt.every == 0; printed {
			w.print(last)
			if err := w.out.Flush(); err != nil {
				return err
			}
		}
	}
	if !printed {
		w.print(last)
	}
	if !opt.check {
		return w.out.Flush()
	}
	if !w.m.Config.Everywhere {
		all = last
	}
	whole.Lengths = []int{w.s.Position()}
	fmt.Fprintf(w.out, "step by step and at once, outputs of %d positions are at most %.2g apart\n",
		w.s.Position(), apart(w.m, whole, all))
	return w.out.Flush()
}

// apart is the largest difference between got and the network's outputs for in.
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
	if w.opt.classes {
		class, p := likeliest(y)
		w.printClass(position, class, p)
		return
	}
	values := w.unscaled(y)
	if w.opt.json {
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

// printClass prints the most probable class, with its name if it has one.
func (w *streamer) printClass(position, class int, p float64) {
	name := fmt.Sprint(class)
	if s := w.m.Config.Signal; s != nil && s.Classes != nil {
		name = s.Classes[class]
	}
	if w.opt.json {
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

// unscaled returns the outputs in the units of the data, where the network knows them.
func (w *streamer) unscaled(y []float32) []float32 {
	values := make([]float32, len(y))
	for i, x := range y {
		values[i] = x
		if s := w.m.Config.Signal; s != nil && s.Outputs != nil && !w.opt.scaled {
			values[i] = float32(s.Outputs[i].Unscale(x))
		}
	}
	return values
}

// likeliest is the class with the highest score, and its probability under the softmax.
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
