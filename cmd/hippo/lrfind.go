package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/train"
)

// lrFinder holds the flags of the learning-rate range test.
type lrFinder struct {
	updates int
	plot    string
}

func (f *lrFinder) register(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.updates, "lr-find", 0,
		"try learning rates from 1e-6 to 1 in this number of updates, suggest one, and stop")
	cmd.Flags().StringVar(&f.plot, "plot", "", "PNG file to draw the losses of --lr-find into")
}

// check returns an error if the flags are wrong. It is called before the test runs.
func (f *lrFinder) check() error {
	if f.updates == 0 && f.plot != "" {
		return errors.New("plot: found it without --lr-find, want both")
	}
	if info, err := os.Stat(f.plot); err == nil && info.IsDir() {
		return fmt.Errorf("plot: found the folder %s, want a PNG file", f.plot)
	}
	return nil
}

// find runs a range test, and prints and draws its result. test performs it and calls told after each update.
func (f *lrFinder) find(cmd *cobra.Command, test func(told func(train.LRPoint)) (*train.LRRange, error)) error {
	p := newProgress("learning rates, updates:")
	done := 0
	r, err := test(func(train.LRPoint) {
		done++
		p.update(done, f.updates)
	})
	p.close()
	if err != nil {
		return err
	}
	var x, loss, smoothed []float64
	for _, at := range r.Points {
		x, loss, smoothed = append(x, at.LR), append(loss, at.Loss), append(smoothed, at.Smoothed)
	}
	if len(x) == 0 {
		return errors.New("the loss was no number at the first update, with a learning rate of 1e-6: " +
			"the model is invalid")
	}
	out := cmd.OutOrStdout()
	fmt.Fprint(out, status.Curve(smoothed, 72, 12))
	fmt.Fprintf(out, "training loss, smoothed, at learning rates from %.2g to %.2g\n", x[0], x[len(x)-1])
	if r.Exploded {
		fmt.Fprintf(out, "it ended there, as the loss was twice the least, or no number\n")
	}
	if r.Suggested == 0 {
		fmt.Fprintf(out, "the loss never fell: no learning rate can be suggested; more updates (--lr-find, now %d) or "+
			"sequences (--batch) may help\n", f.updates)
	} else {
		fmt.Fprintf(out, "the loss was least at %.2g; a peak of a tenth of that is usual: --optim.lr %.1e\n", r.Best.LR,
			r.Suggested)
	}
	if f.plot == "" {
		return nil
	}
	chart := figure.Chart{Title: "Learning-rate range test", X: "learning rate", Y: "training loss",
		LogX: true, Lines: []figure.Line{{Name: "smoothed", X: x, Y: smoothed}, {Name: "each update", X: x, Y: loss}}}
	if err := chart.WritePNG(f.plot); err != nil {
		return err
	}
	fmt.Fprintf(out, "drawn in %s\n", f.plot)
	return nil
}
