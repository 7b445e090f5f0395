package fit

import "math"

// Errors holds the errors of forecasts of a target.
type Errors struct {
	Name   string `json:"name"`   // the model or baseline
	Target string `json:"target"` // the column
	Count  int    `json:"count"`
	// MAE and RMSE are the mean absolute and the root mean squared error of the median, in the units of the data.
	MAE  float64 `json:"mae"`
	RMSE float64 `json:"rmse"`
	// MSE is the mean squared error divided by the variance of the training part, as in papers.
	MSE float64 `json:"mse_standardized"`
	// CRPS is the continuous ranked probability score of the quantiles, in the units of the data: 2/Q Σ_k ρ_{τ_k}(y -
	// q_k), twice the mean of the pinball losses over Q evenly spaced levels (Gneiting and Ranjan, "Comparing density
	// forecasts using threshold- and quantile-weighted scoring rules", JBES 29, 2011, eq. 6).
	CRPS float64 `json:"crps"`
	// Coverage is the percentage of truths inside the interval of the outermost levels, which should be Nominal.
	Coverage float64 `json:"coverage"`
	Nominal  float64 `json:"nominal"`
	// Steps are the errors at each step of the horizon of forecasts.
	Steps []StepErrors `json:"steps,omitempty"`
}

// StepErrors holds the errors at one step of a horizon.
type StepErrors struct {
	MAE      float64 `json:"mae"`
	CRPS     float64 `json:"crps"`
	Coverage float64 `json:"coverage"`
}

// errorSum adds up errors.
type errorSum struct {
	name, target string
	deviation    float64 // of the training part
	levels       []float64
	middle       int
	all          oneSum
	steps        []oneSum
	learnt       float64 // number of truths in the learnt interval
}

type oneSum struct {
	n, absolute, square, pinball, inside float64
}

func (p *Plan) newErrorSum(name string, target int) *errorSum {
	c := &p.Columns[p.targets()[target]]
	return &errorSum{name: name, target: c.Name, deviation: c.deviation(), levels: p.Levels, middle: p.middle(),
		steps: make([]oneSum, p.Horizon)}
}

// pinball returns the loss ρ_τ(y - q) = max(τ(y - q), (τ-1)(y - q)) of a quantile q of level τ.
func pinball(level, y, q float64) float64 { return max(level*(y-q), (level-1)*(y-q)) }

// add adds the errors of the quantiles for a truth. step is the step of a horizon, or 0.
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

// errors returns the means.
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
	Balanced  float64  `json:"balanced_accuracy"` // mean recall of the classes, percent
	F1        float64  `json:"macro_f1"`
	Loss      float64  `json:"loss"`     // cross-entropy, nats
	Majority  float64  `json:"majority"` // accuracy of always predicting the most frequent class in training, percent
	Confusion [][]int  `json:"confusion"`
	// PerClass has an entry for each class. Floor is a message if the network is not better than the most frequent
	// class in training.
	PerClass []ClassMetrics `json:"per_class"`
	Floor    string         `json:"floor,omitempty"`
	// Bins compares probabilities with the share of right predictions: calibration. ECE is the mean difference.
	Bins []CalibrationBin `json:"calibration"`
	ECE  float64          `json:"expected_calibration_error"`
	// Wrong lists the sequences or rows with the most confident wrong predictions.
	Wrong []WrongExample `json:"most_wrong,omitempty"`
}

// ClassMetrics measures the predictions of one class.
type ClassMetrics struct {
	Class     string  `json:"class"`
	Count     int     `json:"count"`     // number of examples of the class
	Predicted int     `json:"predicted"` // number of examples predicted as the class
	Recall    float64 `json:"recall"`    // share of the examples of the class that are predicted right, percent
	Precision float64 `json:"precision"` // share of the examples predicted as the class that belong to it, percent
	F1        float64 `json:"f1"`
}

// newClassScore returns the score of no examples.
func newClassScore(names []string) *ClassScore {
	s := &ClassScore{Classes: names, Bins: make([]CalibrationBin, calibrationBins)}
	for range names {
		s.Confusion = append(s.Confusion, make([]int, len(names)))
	}
	return s
}

// CalibrationBin holds the examples whose predicted class had a probability in one of ten intervals.
type CalibrationBin struct {
	Probability float64 `json:"probability"` // mean probability
	Right       float64 `json:"right"`       // share that was right
	Count       int     `json:"count"`
}

// WrongExample is an example with a wrong predicted class.
type WrongExample struct {
	Name        string  `json:"name"`
	Row         int     `json:"row,omitempty"` // row in the sequence, from 1
	Truth       string  `json:"truth"`
	Predicted   string  `json:"told"`
	Probability float64 `json:"probability"`
}

// calibrationBins is the number of intervals of probabilities.
const calibrationBins = 10

// finish computes the results from the confusion matrix and the sums in bins.
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
