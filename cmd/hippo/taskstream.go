package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/task"
)

// streamOptions are the flags of hippo task stream.
type streamOptions struct {
	example int
	every   int
	classes bool
	check   bool
	json    bool
	scaled  bool
}

func newTaskStream() *cobra.Command {
	opt := streamOptions{}
	cmd := &cobra.Command{
		Use:   "stream DIR [FILE]",
		Short: "Go through a sequence step by step with a trained network",
		Long: `Feed the network of a run in DIR one position after the other, from its recurrent state, and print its
outputs at each: for a network with one output for a sequence, those of the sequence so far. What goes in is a line of
numbers for each position, or tokens, from FILE or the standard input as it comes; or, with --example, a test example of
the run's task. Numbers are those of the data, such as pixels of 0 to 255: the network keeps how they are scaled, says
what it expects, and gives numbers back in their units. - stands for one that is not known. --scaled takes and gives
them as the task scales them. --check then runs the whole sequence at once and prints how far the two are apart.`,
		Example: `  hippo task stream runs/task/ecg/s4d-small-seed1 --example 0 --every 1000 --check
  sensor | hippo task stream runs/task/ecg/s4d-small-seed1 -
  hippo task stream runs/task/smnist/s4d-small-seed1 --example 3 --classes --every 100`,
		Args:              modelArgs(1, 2),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	f := cmd.Flags()
	f.IntVar(&opt.example, "example", -1, "test example of the task, instead of FILE")
	f.IntVar(&opt.every, "every", 1, "positions from one that is printed to the next; the last one always is")
	f.BoolVar(&opt.classes, "classes", false, "print the likeliest class and its probability instead of all outputs")
	f.BoolVar(&opt.check, "check", false, "compare with the network's outputs for the whole sequence")
	f.BoolVar(&opt.scaled, "scaled", false, "numbers go in and come out as the task scales them")
	f.BoolVar(&opt.json, "json", false, "print JSON objects with position and outputs, one a line")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case opt.every < 1:
			return fmt.Errorf("every: found %d, want 1 or more", opt.every)
		case opt.example >= 0 && len(args) > 1:
			return fmt.Errorf("found --example and the file %s, want one of them", args[1])
		}
		m, err := model.FindNetwork(args[0])
		if err != nil {
			return err
		}
		if m == nil {
			return fmt.Errorf("%s: found no %s, want the folder of a task's run", args[0], model.NetworkFile)
		}
		s, err := m.NewStream()
		if err != nil {
			return err
		}
		steps, done, err := streamSteps(cmd, m, args, &opt)
		if err != nil {
			return err
		}
		defer done()
		return (&streamer{m: m, s: s, out: bufio.NewWriter(cmd.OutOrStdout()), opt: &opt}).run(cmd.Context(), steps)
	}
	return cmd
}

// streamStep is a position that goes in: a token, or a row of numbers.
type streamStep struct {
	token int32
	row   []float32
	err   error
}

// streamSteps gives the positions one by one, and what ends their reading.
func streamSteps(cmd *cobra.Command, m *model.Network, args []string,
	opt *streamOptions) (<-chan streamStep, func(), error) {
	ctx, stop := context.WithCancel(cmd.Context())
	steps := make(chan streamStep)
	send := func(s streamStep) bool {
		select {
		case steps <- s:
			return s.err == nil
		case <-ctx.Done():
			return false
		}
	}
	if opt.example >= 0 {
		var ex *task.Example
		r, err := experiment.ReadResult(args[0])
		if err == nil {
			ex, err = r.TestExample(ctx, opt.example)
		}
		if err != nil {
			stop()
			return nil, nil, err
		}
		go func() {
			defer close(steps)
			for _, id := range ex.Tokens {
				if !send(streamStep{token: id}) {
					return
				}
			}
			for v, c := ex.Values, m.Config.Channels; len(v) > 0; v = v[c:] {
				if !send(streamStep{row: v[:c]}) {
					return
				}
			}
		}()
		return steps, stop, nil
	}
	in, name, done := cmd.InOrStdin(), "standard input", stop
	if len(args) > 1 && args[1] != "-" {
		f, err := os.Open(args[1])
		if err != nil {
			stop()
			return nil, nil, err
		}
		in, name, done = f, args[1], func() { stop(); f.Close() }
	}
	note := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), "note: "+format+"\n", args...) }
	r := newStepReader(&m.Config, opt.scaled, name, note)
	// Reading is left to a goroutine, as an interrupt does not end it.
	go func() {
		defer close(steps)
		if err := r.read(in, send); err != nil {
			send(streamStep{err: fmt.Errorf("%s%w", name, err)})
		}
	}()
	return steps, done, nil
}
