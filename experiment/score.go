package experiment

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/train"

	"gonum.org/v1/gonum/stat"
)

// ScoreText formats a score with enough digits to compare it with others. numbers is set if the targets are numbers,
// not classes.
func ScoreText(s train.Score, numbers bool) string {
	if numbers {
		return fmt.Sprintf("MSE %s, MAE %s", ErrorText(s.Loss), ErrorText(s.MAE))
	}
	return fmt.Sprintf("%s, loss %s", status.Percent(s.Accuracy, s.Count), ErrorText(s.Loss))
}

// ErrorText formats a loss or an error with six digits.
func ErrorText(v float64) string { return fmt.Sprintf("%#.6g", v) }

// ScoresText formats the mean and range of scores, each over count targets.
func ScoresText(scores []float64, numbers bool, count int) string {
	one := func(v float64) string {
		if numbers {
			return ErrorText(v)
		}
		return status.Percent(v, count)
	}
	text := one(stat.Mean(scores, nil))
	if len(scores) > 1 {
		text += fmt.Sprintf(" (%s to %s, %d seeds)", one(slices.Min(scores)), one(slices.Max(scores)), len(scores))
	}
	return text
}

// PublishedText formats a published result to follow a score, or returns "" if there is none.
func PublishedText(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("; published %g", v)
}

// Seconds converts seconds to a time.Duration.
func Seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }
