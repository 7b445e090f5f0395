package evidence

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/train"
)

// mostPoints is the largest number of measurements that are kept of a run.
const mostPoints = 20

// moment is a measurement during a run: the epoch, the score in the unit of the result, and the mean training loss
// since the previous measurement.
type moment [3]float64

// momentsOf returns measurements evenly spaced over a run, including the last one, rounded to four digits.
func momentsOf(points []train.Point, score func(train.Score) float64) (all []moment) {
	step := (len(points) + mostPoints - 1) / mostPoints
	for i, p := range points {
		if (len(points)-1-i)%step == 0 {
			all = append(all, moment{fourDigits(p.Epoch), fourDigits(score(p.Valid)), fourDigits(p.TrainLoss)})
		}
	}
	return all
}

// fourDigits rounds a number to four significant digits.
func fourDigits(x float64) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64) // it always parses
	return x
}

// learning draws the scores of a task's runs by epochs into a picture beside a page. It returns a text on the changes
// in the last fifth of each run.
func (b *Book) learning(page, picture, task string, results []result) (string, error) {
	results = slices.DeleteFunc(slices.Concat(rowsOf(results)...), func(r result) bool {
		return r.Task != task || len(r.Curve) < 2
	})
	if len(results) == 0 {
		return "", errors.New("found no curve of the task " + task + ", want some runs of it measured more than once")
	}
	unit := results[0].Unit
	chart := figure.Chart{Title: task, Subtitle: "each line is a run", X: "epochs", Y: unit}
	for _, r := range results {
		l := figure.Line{Name: fmt.Sprintf("%s, seed %d", r.Model, r.Seed)}
		for _, m := range r.Curve {
			l.X, l.Y = append(l.X, m[0]), append(l.Y, m[1])
		}
		chart.Lines = append(chart.Lines, l)
	}
	if err := b.draw(chart, page, picture); err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "![%[1]s by epochs](%[2]s)\n\n| model | seed | score after four fifths, %[1]s | at the end | "+
		"loss in training after four fifths | at the end |\n|---|---:|---:|---:|---:|---:|\n", unit, picture)
	for _, r := range results {
		before, last := r.Curve[0], r.Curve[len(r.Curve)-1]
		for _, m := range r.Curve {
			if m[0] <= last[0]*4/5 {
				before = m
			}
		}
		fmt.Fprintf(&out, "| `%s` | %d | %s | %s | %.4g | %.4g |\n", r.Model, r.Seed, number(before[1], unit),
			number(last[1], unit), before[2], last[2])
	}
	return out.String() + machines(results), nil
}
