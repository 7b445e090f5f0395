package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/watch"
)

// watchPrinter prints reports, counts them, and saves the state from time to time.
type watchPrinter struct {
	o       *watchOptions
	w       *watch.Watcher
	out     io.Writer
	metrics *watch.Metrics
	json    bool
	color   bool
	named   bool // there are several streams

	started, saved time.Time
	lines          int64  // since started
	kept           int64  // rounds of learning whose result is saved
	trouble        string // error of the last save
}

// emit counts and prints the reports of some lines, and saves the state if it is time to.
func (p *watchPrinter) emit(reports []watch.Report) error {
	p.lines += int64(len(reports))
	if p.metrics != nil {
		p.metrics.Count(reports, p.w.Learnt())
	}
	out := bufio.NewWriter(p.out)
	for i := range reports {
		r := &reports[i]
		switch {
		case !r.Alarm && !p.o.All:
		case p.json:
			if err := plainJSON(out).Encode(watchObject(r)); err != nil {
				return err
			}
		default:
			fmt.Fprintln(out, p.line(r)) // Flush returns the error
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if p.o.State != "" && time.Since(p.saved) >= p.o.SaveEvery {
		p.saved = time.Now()
		if err := p.save(); err != nil && err.Error() != p.trouble { // the state saved last is still there
			p.trouble = err.Error()
			note(p.trouble)
		}
	}
	return nil
}

// save writes the model if it has learnt, and then the state.
func (p *watchPrinter) save() error {
	if kept := p.w.Learnt().Kept; kept > p.kept {
		if err := p.w.SaveModel(p.o.learntDir()); err != nil {
			return err
		}
		p.kept = kept
	}
	return disk.WriteFile(p.o.State, p.w.Encode)
}

// reportObject is a report with its text, which is encoded as base64 if it is not valid UTF-8.
type reportObject struct {
	*watch.Report
	Text   *string `json:"text,omitempty"`
	Base64 []byte  `json:"base64,omitempty"`
}

func watchObject(r *watch.Report) reportObject {
	o := reportObject{Report: r}
	if utf8.Valid(r.Text) {
		text := string(r.Text)
		o.Text = &text
	} else {
		o.Base64 = r.Text
	}
	return o
}

// line formats a report: the position of the line, its score, and the line itself with the surprising parts underlined.
func (p *watchPrinter) line(r *watch.Report) string {
	var b strings.Builder
	if p.named {
		b.WriteString(brief.Printable(r.Stream) + ":")
	}
	fmt.Fprintf(&b, "%d: ", r.Line)
	if r.Unreadable != "" {
		fmt.Fprintf(&b, "unreadable (%s): ", brief.Line(r.Unreadable))
	} else {
		limit := "none yet"
		if r.Threshold != nil {
			limit = fmt.Sprintf("%.1f", *r.Threshold)
		}
		fmt.Fprintf(&b, "%.1f (threshold %s; %.0f bits, %.2f a byte): ", r.Score, limit, r.Bits, r.BitsByte)
	}
	text := strings.TrimRight(string(r.Text), "\n")
	at := 0
	for _, x := range r.Ranges {
		start, end := runesAround(text, x.Start, x.End)
		if !p.color || start < at || start >= end {
			continue
		}
		b.WriteString(oneLine(text[at:start]) + "\x1b[1;4;31m" + oneLine(text[start:end]) + "\x1b[0m")
		at = end
	}
	b.WriteString(oneLine(text[at:]))
	if r.Cut > 0 {
		fmt.Fprintf(&b, " ... and %d bytes more", r.Cut)
	}
	return b.String()
}

// oneLine returns text in a form that is safe to print in one line.
func oneLine(text string) string { return strings.ReplaceAll(brief.Printable(text), "\n", `\n`) }

// runesAround extends a range of bytes to whole characters.
func runesAround(text string, start, end int) (int, int) {
	start, end = min(start, len(text)), min(end, len(text))
	for start > 0 && start < len(text) && !utf8.RuneStart(text[start]) {
		start--
	}
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end++
	}
	return start, end
}

// close saves the state, prints the summary, and returns the error of the command. err is the error of reading.
func (p *watchPrinter) close(ctx context.Context, err error) error {
	var unsaved error
	if p.o.State != "" {
		unsaved = p.save()
	}
	var sum watch.Counts
	for _, s := range p.w.Streams() {
		sum.Lines, sum.Bytes, sum.Bits = sum.Lines+s.Lines, sum.Bytes+s.Bytes, sum.Bits+s.Bits
		sum.Alarms, sum.Cut, sum.Restarts = sum.Alarms+s.Alarms, sum.Cut+s.Cut, sum.Restarts+s.Restarts
		sum.Unreadable += s.Unreadable
	}
	took := time.Since(p.started)
	fmt.Fprintf(os.Stderr, "%s lines in %s, %s lines/s; of all %s lines so far %s were alarms, %.3f bits a byte\n",
		status.Count(p.lines), status.Duration(took), status.Count(float64(p.lines)/max(took.Seconds(), 1e-3)),
		status.Count(sum.Lines), status.Count(sum.Alarms), sum.Bits/float64(max(1, sum.Bytes)))
	for _, s := range p.w.Streams() {
		if z := p.w.Threshold(s); p.named && !math.IsInf(z, 0) {
			fmt.Fprintf(os.Stderr, "%s: %s lines, %s alarms, threshold %.1f\n", brief.Printable(s.Name),
				status.Count(s.Lines), status.Count(s.Alarms), z)
		} else if !math.IsInf(z, 0) {
			fmt.Fprintf(os.Stderr, "threshold %.1f\n", z)
		}
	}
	for _, x := range []struct {
		n    int64
		what string
	}{
		{sum.Cut, "bytes of long lines were not read"}, {sum.Unreadable, "lines could not be read"},
		{sum.Restarts, "times the state was no longer finite, and started again"},
	} {
		if x.n > 0 {
			note(fmt.Sprint(x.n, " ", x.what))
		}
	}
	if l := p.w.Learnt(); l.Kept+l.Worse+l.Failed > 0 {
		fmt.Fprintf(os.Stderr,
			"learning: %d rounds kept, %d no better, %d failed; the last: %.4f to %.4f bits a token\n",
			l.Kept, l.Worse, l.Failed, l.Before, l.After)
	}
	if p.o.State != "" && unsaved == nil {
		fmt.Fprintf(os.Stderr, "the same command goes on from %s\n", p.o.State)
	}
	switch {
	case unsaved != nil:
		return errors.Join(err, unsaved)
	case isGone(err), errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return errInterrupted
	}
	return err
}
