package status

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// A Line is a status: fields in the order in which they are shown.
type Line []Field

// A Field is one value of a status with its name. If not all fields fit, the ones with the highest Drop are removed
// first, and among equals the last.
type Field struct {
	Key   string // may be ""
	Value string
	Drop  int
}

// String returns the key and the value with a space between them.
func (f Field) String() string {
	if f.Key == "" {
		return f.Value
	}
	return f.Key + " " + f.Value
}

// String returns all fields, with two spaces between them.
func (l Line) String() string {
	var b strings.Builder
	for i, f := range l {
		if i > 0 {
			b.WriteString("  ")
		}
		b.WriteString(f.String())
	}
	return b.String()
}

// Fit returns the line in at most width columns: it drops fields that do not fit, and cuts the last remaining one if
// even that is too wide. Every character counts as one column.
func (l Line) Fit(width int) string {
	l = append(Line(nil), l...)
	for len(l) > 1 && len([]rune(l.String())) > width {
		drop := len(l) - 1
		for i := drop - 1; i >= 0; i-- {
			if l[i].Drop > l[drop].Drop {
				drop = i
			}
		}
		l = append(l[:drop], l[drop+1:]...)
	}
	text := []rune(l.String())
	return string(text[:max(0, min(len(text), width))])
}

// Training is the status of a training run. A field that is zero is not known yet and is not shown; nor is a NaN
// ValLoss. (A NaN Loss or GradNorm is shown, because it matters.)
type Training struct {
	Step, Steps  int64
	Loss         float64 // nats per token
	ValLoss      float64
	TokensPerSec float64
	GradNorm     float64
	LR           float64
	ETA          time.Duration
	Mem          uint64 // bytes
}

// Line arranges the fields: step, loss, val_loss, tok/s, grad_norm, lr, eta, mem. On a narrow terminal mem, lr,
// grad_norm, tok/s, val_loss and eta are dropped, in this order.
func (t Training) Line() Line {
	l := Line{{"step", strconv.FormatInt(t.Step, 10), 0}}
	if t.Steps > 0 {
		l[0].Value += "/" + strconv.FormatInt(t.Steps, 10)
	}
	add := func(known bool, key, value string, drop int) {
		if known {
			l = append(l, Field{key, value, drop})
		}
	}
	add(t.Loss != 0, "loss", fixed(t.Loss, 4), 0)
	add(t.ValLoss != 0 && !math.IsNaN(t.ValLoss), "val_loss", fixed(t.ValLoss, 4), 2)
	add(t.TokensPerSec > 0, "tok/s", Count(t.TokensPerSec), 3)
	add(t.GradNorm != 0, "grad_norm", fixed(t.GradNorm, 2), 4)
	add(t.LR != 0, "lr", strconv.FormatFloat(t.LR, 'e', 2, 64), 5)
	add(t.ETA > 0, "eta", Duration(t.ETA), 1)
	add(t.Mem > 0, "mem", Bytes(t.Mem), 6)
	return l
}

func fixed(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }
