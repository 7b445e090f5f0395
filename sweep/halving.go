package sweep

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Budget is the setting that limits how long a trial trains, with its value for a full run.
type Budget struct {
	Setting string
	Full    float64 // in seconds if it is a time
	Time    bool
}

// ParseBudget parses SETTING=VALUE. The value is a number of updates or epochs, or a time such as 10m.
func ParseBudget(text string) (b Budget, err error) {
	name, given, _ := strings.Cut(text, "=")
	b.Setting = strings.TrimLeft(strings.TrimSpace(name), "-")
	b.Full, err = strconv.ParseFloat(given, 64)
	if d, wrong := time.ParseDuration(given); err != nil && wrong == nil {
		b.Full, b.Time, err = d.Seconds(), true, nil
	}
	if err != nil || b.Setting == "" || !(b.Full >= 1) || math.IsInf(b.Full, 0) {
		return b, fmt.Errorf("halving: found %q, want the setting that is the budget, with its value for a whole "+
			"run: train.steps=2000, epochs=30 or time=10m", text)
	}
	return b, nil
}

// share returns the setting for a share of the budget: a whole number, at least 1.
func (b *Budget) share(share float64) Setting {
	n := max(1, math.Round(b.Full*share))
	if b.Time {
		return Setting{b.Setting, (time.Duration(n) * time.Second).String()}
	}
	return Setting{b.Setting, strconv.FormatFloat(n, 'f', 0, 64)}
}

// rung is a round of successive halving.
type rung struct {
	trials int
	share  float64 // of the budget of a full run
}

// rungs returns the rounds of successive halving (Jamieson and Talwalkar, arXiv:1502.07943) in the form of Hyperband
// (Li et al., arXiv:1603.06560, Algorithm 1): with s = ⌊log_η n⌋, round i has ⌊n/η^i⌋ trials with the share η^(i-s) of
// the budget.
func rungs(n, eta int) (all []rung) {
	share := 1.0
	for left := n; left > 0; left /= eta {
		all = append(all, rung{trials: left})
	}
	for i := len(all) - 1; i >= 0; i-- {
		all[i].share = share
		share /= float64(eta)
	}
	return all
}
