package fit

import (
	"fmt"
	"math"
	"strings"

	"github.com/hippo-ssm/hippo/explain/figure"
)

// sentence summarizes the scales.
func (s *TimeScales) sentence() string {
	n := s.furthest()
	if n == nil {
		return ""
	}
	rows, half := float64(n.Rows.Longest), s.both(float64(n.Rows.Median))
	var b strings.Builder
	switch whole := rows >= kernelShare*kernelShare*float64(s.Window); {
	case n.Of == All:
		fmt.Fprintf(&b, "Layer %d (%s) sees the whole window, %s", n.Layer, n.Kind, s.both(float64(s.Window)))
	case n.Of == Modes && math.IsInf(rows, 0):
		fmt.Fprintf(&b, "The slowest mode of layer %d (%s) never fades", n.Layer, n.Kind)
	case n.Of == Modes:
		fmt.Fprintf(&b, "Half of the modes of layer %d (%s) remember %s or more, the slowest %s", n.Layer, n.Kind,
			half, s.both(rows))
	default:
		longest := s.both(rows)
		if whole {
			longest = "the whole window, " + s.both(float64(s.Window))
		}
		if whole && s.Cut {
			longest = s.both(float64(s.Window)) + " or more"
		}
		fmt.Fprintf(&b, "Half of the kernels of layer %d (%s) remember %s or more, the longest %s", n.Layer, n.Kind,
			half, longest)
	}
	var repeats []string
	last, forgets := 0, 0
	for _, d := range s.Data {
		if !d.Repeats {
			forgets = d.Rows
			continue
		}
		last = d.Rows
		repeats = append(repeats, s.both(float64(d.Rows)))
	}
	switch {
	case len(repeats) > 0:
		b.WriteString("; the data repeats after " + and(repeats))
		switch {
		case float64(last) <= rows:
		case len(repeats) > 1:
			b.WriteString(", and the last of these is further back")
		default:
			b.WriteString(", which is further back")
		}
	case forgets > 0:
		fmt.Fprintf(&b, "; the data does not repeat within %s, and its correlation is below 1/e after %s",
			s.both(float64(s.Lags[len(s.Correlation)-1])), s.both(float64(forgets)))
	case len(s.Correlation) > 0:
		fmt.Fprintf(&b, "; the data does not repeat within %s, and its correlation stays above 1/e",
			s.both(float64(s.Lags[len(s.Correlation)-1])))
	}
	return b.String() + "."
}

// and joins words to a list.
func and(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// both formats rows, with the corresponding time if the step is known.
func (s *TimeScales) both(rows float64) string {
	text := lengthText(rows) + " rows"
	if rows == 1 {
		text = "1 row"
	}
	if s.Step > 0 {
		text += " (" + spanText(rows*s.Step) + ")"
	}
	return text
}

// span formats rows as a time, or as rows if the step is unknown.
func (s *TimeScales) span(rows float64) string {
	if s.Step > 0 {
		return spanText(rows * s.Step)
	}
	return lengthText(rows) + " rows"
}

// lengthText formats a length with three digits.
func lengthText(x float64) string {
	if x >= 100 {
		x = math.Round(x)
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// spanText formats a time in the largest unit of which it has at least one. It uses weeks only for whole weeks.
func spanText(seconds float64) string {
	units := []struct {
		name    string
		seconds float64
	}{{"year", 365.25 * day}, {"week", 7 * day}, {"day", day}, {"hour", 3600}, {"minute", 60}, {"second", 1},
		{"ms", 1e-3}, {"µs", 1e-6}}
	for i, u := range units {
		n := seconds / u.seconds
		if n < 0.995 && i < len(units)-1 || u.name == "week" && math.Abs(n-math.Round(n)) > 0.01 {
			continue
		}
		text := lengthText(n) + " " + u.name
		if u.seconds >= 1 && lengthText(n) != "1" {
			text += "s"
		}
		return text
	}
	return ""
}

// ScalesFile is the name of the picture of the time scales.
const ScalesFile = "scales.png"

// chart draws how the memory of each layer fades, together with the correlation of the data.
func (s *TimeScales) chart(about string) figure.Chart {
	c := figure.Chart{Title: "How far back the network looks, and the scales of the data", Subtitle: about,
		X: "lag (rows)", Y: "energy of kernels that far back or further; correlation of the data", LogX: true}
	if s.Step > 0 {
		c.X = fmt.Sprintf("lag (rows of %s)", spanText(s.Step))
	}
	lags := make([]float64, len(s.Lags))
	for i, k := range s.Lags {
		lags[i] = float64(k)
	}
	for layer := range layers(s.Network) {
		n := s.main(layer)
		if n == nil {
			continue
		}
		end := len(n.Left) // up to the first lag at which nothing is left
		for end > 2 && n.Left[end-1] == 0 {
			end--
		}
		name := fmt.Sprintf("layer %d, %s", n.Layer, n.Kind)
		c.Lines = append(c.Lines, figure.Line{Name: name, X: lags[:end], Y: n.Left[:end]})
	}
	if len(s.Correlation) > 0 {
		c.Lines = append(c.Lines, figure.Line{Name: "correlation of " + s.Of, X: lags[:len(s.Correlation)],
			Y: s.Correlation})
	}
	for _, d := range s.Data {
		if d.Repeats {
			c.At = append(c.At, float64(d.Rows))
			c.Lines = append(c.Lines, figure.Line{Name: d.Name, X: []float64{float64(d.Rows)},
				Y: []float64{d.Correlation}})
		}
	}
	return c
}

// layers returns the number of layers.
func layers(all []NetworkScale) (n int) {
	for _, one := range all {
		n = max(n, one.Layer+1)
	}
	return n
}

// reach formats a length for tables.
func (s *TimeScales) reach(r Reach) string {
	if math.IsInf(float64(r), 0) {
		return "never fades"
	}
	return s.both(float64(r))
}
