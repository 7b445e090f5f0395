package experiment

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/task"
)

// Step is a position of a sequence, a token or a row of numbers, or the error that ended reading.
type Step struct {
	token int32
	row   []float32
	err   error
}

// sender starts send in a goroutine and returns the steps that it sends, until ctx is done.
func sender(ctx context.Context, send func(func(Step) bool)) <-chan Step {
	steps := make(chan Step)
	go func() {
		defer close(steps)
		send(func(s Step) bool {
			select {
			case steps <- s:
				return s.err == nil
			case <-ctx.Done():
				return false
			}
		})
	}()
	return steps
}

// ExampleSteps returns the positions of an example.
func ExampleSteps(ctx context.Context, c *model.NetworkConfig, ex *task.Example) <-chan Step {
	return sender(ctx, func(send func(Step) bool) {
		for _, id := range ex.Tokens {
			if !send(Step{token: id}) {
				return
			}
		}
		for v := ex.Values; len(v) > 0; v = v[c.Channels:] {
			if !send(Step{row: v[:c.Channels]}) {
				return
			}
		}
	})
}

// ReadSteps returns the positions of a file or stream, called name in messages, as they arrive. With scaled, the
// numbers are already scaled. A goroutine reads, because ctx cannot interrupt reading.
func ReadSteps(ctx context.Context, c *model.NetworkConfig, in io.Reader, name string, scaled bool,
	note func(format string, args ...any)) <-chan Step {
	r := newStepReader(c, scaled, name, note)
	return sender(ctx, func(send func(Step) bool) {
		if err := r.read(in, send); err != nil {
			send(Step{err: fmt.Errorf("%s%w", name, err)})
		}
	})
}

// stepReader reads the inputs of a network: a line of numbers for each position, or any number of tokens.
type stepReader struct {
	channels int             // 0 for tokens
	vocab    int             // tokens are less than vocab
	inputs   []model.Channel // how to scale numbers; nil if they are already scaled
	name     string          // of the file
	note     func(format string, args ...any)
	unusual  bool // whether a number outside the range of training has been noted
}

// newStepReader makes a reader for a network and notes what it expects. With scaled, numbers are not scaled again.
func newStepReader(c *model.NetworkConfig, scaled bool, name string,
	note func(format string, args ...any)) *stepReader {
	r := &stepReader{channels: c.Channels, vocab: c.Vocab, name: name, note: note}
	switch {
	case c.Channels == 0:
		note("the network takes tokens, 0 to %d", c.Vocab-1)
	case scaled:
		note("the network takes %d numbers a line, as the task scales them", c.Channels)
	case c.Signal == nil || c.Signal.Inputs == nil:
		note("this network does not know how its numbers are scaled: it takes %d numbers a line, scaled as in training",
			c.Channels)
	default:
		r.inputs = c.Signal.Inputs
		var about []string
		for i := range r.inputs {
			about = append(about, r.inputs[i].String())
		}
		note("the network takes a line for each position: %s; it scales them itself", strings.Join(about, "; "))
	}
	return r
}

// read sends lines of numbers, or tokens, until send returns false. Its errors begin with the name and line.
func (r *stepReader) read(in io.Reader, send func(Step) bool) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<24)
	some := false
	for n := 1; lines.Scan(); n++ {
		fields := strings.FieldsFunc(lines.Text(), func(r rune) bool { return strings.ContainsRune(",; \t\r", r) })
		if len(fields) == 0 {
			continue
		}
		some = true
		more, err := r.line(n, fields, send)
		if err != nil {
			return fmt.Errorf(", line %d: %w", n, err)
		}
		if !more {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf(": %w", err)
	}
	if !some {
		return fmt.Errorf(": found nothing, want at least one position")
	}
	return nil
}

// line sends the inputs on line n. more is false if send returned false.
func (r *stepReader) line(n int, fields []string, send func(Step) bool) (more bool, err error) {
	if r.channels == 0 {
		for _, field := range fields {
			id, err := strconv.ParseInt(field, 10, 32)
			if err != nil {
				return false, fmt.Errorf("found %.40q, want a token's number", field)
			}
			if id < 0 || id >= int64(r.vocab) {
				return false, fmt.Errorf("found token %d, want 0 to %d", id, r.vocab-1)
			}
			if !send(Step{token: int32(id)}) {
				return false, nil
			}
		}
		return true, nil
	}
	if len(fields) != r.channels {
		return false, fmt.Errorf("found %d numbers, want %d", len(fields), r.channels)
	}
	row := make([]float32, len(fields))
	for i, field := range fields {
		if row[i], err = r.number(n, i, field); err != nil {
			return false, err
		}
	}
	return send(Step{row: row}), nil
}

// number returns the input of channel i for a field of line n.
func (r *stepReader) number(n, i int, field string) (float32, error) {
	if field == "-" {
		return 0, nil
	}
	x, err := strconv.ParseFloat(field, 32)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("found %.40q, want a number", field)
	}
	if r.inputs == nil {
		return float32(x), nil
	}
	c := &r.inputs[i]
	if !r.unusual && !c.Usual(x) {
		r.unusual = true
		r.note("%s, line %d: found %g, far from what the network was trained on (%s): its outputs for that mean little",
			r.name, n, x, c)
	}
	y := c.Scale(x)
	if math.IsInf(float64(y), 0) {
		return 0, fmt.Errorf("found %.40q, which is too large a number for %s", field, c)
	}
	return y, nil
}
