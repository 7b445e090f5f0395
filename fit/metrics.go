package fit

import "math"

// Errors are the errors of forecasts of a target.
type Errors struct {
	Name   string `json:"name"`   // the model or baseline
	Target string `json:"target"` // the column
	Count  int    `json:"count"`
	// MAE and RMSE are the mean absolute and the root mean squared error of the median, in the units of the data.
	MAE  float64 `json:"mae"`
	RMSE float64 `json:"rmse"`
	// MSE is the mean squared error in variances of the training part, as papers measure it.
	MSE float64 `json:"mse_standardized"`
	// CRPS is the continuous ranked probability score of the quantiles, in the units of the data: 2/Q Σ_k ρ_{τ_k}(y -
	// q_k), the mean of the pinball losses over Q levels that are evenly apart, twice (Gneiting and Ranjan, "Comparing
	// density forecasts using threshold- and quantile-weighted scoring rules", JBES 29, 2011, eq. 6).
	CRPS float64 `json:"crps"`
	// Coverage is the percentage of truths inside the interval of the outermost levels, which should be Nominal.
	Coverage float64 `json:"coverage"`
	Nominal  float64 `json:"nominal"`
	// Steps are the errors at each step of the horizon of forecasts.
	Steps []StepErrors `json:"steps,omitempty"`
}

// StepErrors are errors at one step of a horizon.
type StepErrors struct {
	MAE      float64 `json:"mae"`
	CRPS     float64 `json:"crps"`
	Coverage float64 `json:"coverage"`
}

// errorSum adds errors up.
type errorSum struct {
	name, target string
	deviation    float64 // of the training part
	levels       []float64
	middle       int
	all          oneSum
	steps        []oneSum
	learnt       float64 // truths in the interval as learnt
}

type oneSum struct {
	n, absolute, square, pinball, inside float64
}

func (p *Plan) newErrorSum(name string, target int) *errorSum {
	c := &p.Columns[p.targets()[target]]
	return &errorSum{name: name, target: c.Name, deviation: c.deviation(), levels: p.Levels, middle: p.middle(),
		steps: make([]oneSum, p.Horizon)}
}

// pinball is the loss ρ_τ(y - q) = max(τ(y - q), (τ-1)(y - q)) of a quantile q of level τ.
func pinball(level, y, q float64) float64 { return max(level*(y-q), (level-1)*(y-q)) }

// add counts the quantiles of a truth. step is that of a horizon, or 0.
func (s *errorSum) add(step int, y float64, q []float64) {
	if math.IsNaN(y) {
		return
	}
	var one oneSum
	e := q[s.middle] - y
	one.n, one.absolute, one.square = 1, math.Abs(e), e*e
	for k, level := range s.levels {
		one.pinball += pinball(level, y, q[k]) / float64(len(q))
	}
	if q[0] <= y && y <= q[len(q)-1] {
		one.inside = 1
	}
	s.all.add(one)
	if step < len(s.steps) {
		s.steps[step].add(one)
	}
}

func (s *oneSum) add(o oneSum) {
	s.n += o.n
	s.absolute += o.absolute
	s.square += o.square
	s.pinball += o.pinball
	s.inside += o.inside
}

// errors are the means.
func (s *errorSum) errors() Errors {
	n := max(1, s.all.n)
	e := Errors{
		Name: s.name, Target: s.target, Count: int(s.all.n), MAE: s.all.absolute / n, RMSE: math.Sqrt(s.all.square / n),
		MSE: s.all.square / n / (s.deviation * s.deviation), CRPS: 2 * s.all.pinball / n,
		Coverage: 100 * s.all.inside / n,
		Nominal:  100 * (s.levels[len(s.levels)-1] - s.levels[0]),
	}
	for _, one := range s.steps {
		n := max(1, one.n)
		e.Steps = append(e.Steps, StepErrors{one.absolute / n, 2 * one.pinball / n, 100 * one.inside / n})
	}
	return e
}

// ClassScore measures the classification of the test part.
type ClassScore struct {
	Name      string   `json:"name,omitempty"` // the model or baseline
	Classes   []string `json:"classes"`
	Count     int      `json:"count"`
	Accuracy  float64  `json:"accuracy"`          // percent
	Balanced  float64  `json:"balanced_accuracy"` // the mean recall of the classes, percent
	F1        float64  `json:"macro_f1"`
	Loss      float64  `json:"loss"`     // cross-entropy, nats
	Majority  float64  `json:"majority"` // the accuracy of the class most frequent in training, percent
	Confusion [][]int  `json:"confusion"`
	// PerClass has each class. Floor says so if the network is not better than the class most frequent in training.
	PerClass []ClassMetrics `json:"per_class"`
	Floor    string         `json:"floor,omitempty"`
	// Bins compare probabilities with how often the class was right: calibration. ECE is the mean difference.
	Bins []CalibrationBin `json:"calibration"`
	ECE  float64          `json:"expected_calibration_error"`
	// Wrong are the sequences or rows with the most confident wrong predictions.
	Wrong []WrongExample `json:"most_wrong,omitempty"`
}

// ClassMetrics measure the predictions of one class.
type ClassMetrics struct {
	Class     string  `json:"class"`
	Count     int     `json:"count"`     // that are of the class
	Predicted int     `json:"predicted"` // that are predicted to be
	Recall    float64 `json:"recall"`    // of those of the class, what is predicted so, percent
	Precision float64 `json:"precision"` // of those predicted so, what is of the class, percent
	F1        float64 `json:"f1"`
}

// newClassScore returns the score of no example.
func newClassScore(names []string) *ClassScore {
	s := &ClassScore{Classes: names, Bins: make([]CalibrationBin, calibrationBins)}
	for range names {
		s.Confusion = append(s.Confusion, make([]int, len(names)))
	}
	return s
}

// CalibrationBin holds the examples whose predicted class had a probability in one tenth.
type CalibrationBin struct {
	Probability float64 `json:"probability"` // the mean
	Right       float64 `json:"right"`       // the part that was right
	Count       int     `json:"count"`
}

// WrongExample is an example whose class was predicted wrong.
type WrongExample struct {
	Name        string  `json:"name"`
	Row         int     `json:"row,omitempty"` // of the sequence, from 1
	Truth       string  `json:"truth"`
	Predicted   string  `json:"told"`
	Probability float64 `json:"probability"`
}

// calibrationBins is how many parts probabilities are divided into.
const calibrationBins = 10

// finish computes what follows from the confusion matrix and the sums in bins.
func (s *ClassScore) finish() {
	n := float64(max(1, s.Count))
	right, classes, recall, f1 := 0, 0.0, 0.0, 0.0
	for i, row := range s.Confusion {
		is, told := 0, 0
		for j, count := range row {
			is += count
			told += s.Confusion[j][i]
		}
		right += row[i]
		s.PerClass = append(s.PerClass, ClassMetrics{
			Class: s.Classes[i], Count: is, Predicted: told, Recall: 100 * float64(row[i]) / float64(max(1, is)),
			Precision: 100 * float64(row[i]) / float64(max(1, told)),
			F1:        2 * float64(row[i]) / float64(max(1, is+told)),
		})
		if is > 0 {
			classes++
			recall += float64(row[i]) / float64(is)
			f1 += 2 * float64(row[i]) / float64(is+told)
		}
	}
	s.Accuracy, s.Loss = 100*float64(right)/n, s.Loss/n
	s.Balanced, s.F1 = 100*recall/max(1, classes), f1/max(1, classes)
	for i := range s.Bins {
		b := &s.Bins[i]
		if b.Count > 0 {
			b.Probability /= float64(b.Count)
			b.Right /= float64(b.Count)
			s.ECE += math.Abs(b.Probability-b.Right) * float64(b.Count) / n
		}
	}
}
