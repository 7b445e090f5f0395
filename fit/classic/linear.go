package classic

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
)

// Linear is a linear map of scaled features: logits of classes, or numbers.
type Linear struct {
	Scale   Scale     `json:"scale"`
	Weights []float32 `json:"weights"` // (features + 1, outputs); the last row is the bias
	Outputs int       `json:"outputs"`
}

// Examples holds scaled features and the classes or numbers to predict from them.
type Examples struct {
	X     []float64 // (n, width)
	Width int
	Class []int     // of each example, or
	Y     []float64 // (n, outputs)
}

// Len returns the number of examples.
func (e *Examples) Len() int { return len(e.X) / e.Width }

// strengths lists the strengths of the penalty to choose from on the validation examples.
var strengths = []float64{1e-4, 1e-3, 1e-2, 1e-1, 1}

// FitLogistic fits multinomial logistic regression by L-BFGS, with the penalty that is best on the validation examples:
//
//	min (1/n) Σ_i -log softmax(W x_i + b)[c_i] + (λ/2) |W|²
//
// If strength is not 0, it is λ. The strength is returned.
func FitLogistic(train, valid *Examples, scale Scale, classes int, strength float64) (*Linear, float64) {
	tried := strengths
	if strength != 0 {
		tried = []float64{strength}
	}
	best, chosen, least := (*Linear)(nil), 0.0, math.Inf(1)
	w := make([]float64, (train.Width+1)*classes)
	for k := len(tried) - 1; k >= 0; k-- { // the strongest first, since each result is the start of the next fit
		w = logistic(train, w, classes, tried[k])
		l := &Linear{Scale: scale, Weights: rounded(w), Outputs: classes}
		if loss := l.entropy(valid); best == nil || loss < least {
			best, chosen, least = l, tried[k], loss
		}
	}
	return best, chosen
}

// logistic minimizes the loss from a start.
func logistic(train *Examples, start []float64, classes int, strength float64) []float64 {
	x := mat.NewDense(train.Len(), train.Width, train.X)
	problem := optimize.Problem{
		Func: func(w []float64) float64 { return logisticLoss(nil, x, train.Class, w, classes, strength) },
		Grad: func(grad, w []float64) { logisticLoss(grad, x, train.Class, w, classes, strength) },
	}
	res, err := optimize.Minimize(problem, start, &optimize.Settings{MajorIterations: 60, GradientThreshold: 1e-5,
		Converger: &optimize.FunctionConverge{Relative: 1e-6, Iterations: 5}}, &optimize.LBFGS{})
	if res == nil || err != nil && res.X == nil {
		return start
	}
	return res.X
}

// logisticLoss returns the loss and, if grad is not nil, sets it to the gradient.
func logisticLoss(grad []float64, x *mat.Dense, class []int, w []float64, classes int, strength float64) float64 {
	n, width := x.Dims()
	weights, bias := mat.NewDense(width, classes, w[:width*classes]), w[width*classes:]
	p := mat.NewDense(n, classes, nil)
	p.Mul(x, weights)
	loss := 0.0
	for i := range n {
		row := p.RawRowView(i)
		for k, b := range bias {
			row[k] += b
		}
		loss -= logSoftmax(row)[class[i]]
	}
	loss /= float64(n)
	for _, v := range w[:width*classes] {
		loss += strength / 2 * v * v
	}
	if grad == nil {
		return loss
	}
	clear(grad)
	for i := range n { // p becomes (softmax - truth)/n
		row := p.RawRowView(i)
		for k := range row {
			row[k] = math.Exp(row[k]) / float64(n)
		}
		row[class[i]] -= 1 / float64(n)
		for k, v := range row {
			grad[width*classes+k] += v
		}
	}
	mat.NewDense(width, classes, grad[:width*classes]).Mul(x.T(), p)
	for j, v := range w[:width*classes] {
		grad[j] += strength * v
	}
	return loss
}

// logSoftmax converts logits to logarithms of probabilities, in place.
func logSoftmax(row []float64) []float64 {
	most, sum := math.Inf(-1), 0.0
	for _, v := range row {
		most = max(most, v)
	}
	for _, v := range row {
		sum += math.Exp(v - most)
	}
	sum = most + math.Log(sum)
	for k := range row {
		row[k] -= sum
	}
	return row
}

// FitRidge fits linear regression with a penalty, min Σ |W x_i + b - y_i|² + λ n |W|², with the λ that is best on
// the validation examples, or strength if that is not 0. It returns nil if it cannot be fitted.
func FitRidge(train, valid *Examples, scale Scale, outputs int, strength float64) (*Linear, float64) {
	tried := strengths
	if strength != 0 {
		tried = []float64{strength}
	}
	n, width := train.Len(), train.Width
	x := mat.NewDense(n, width+1, nil)
	for i := range n {
		copy(x.RawRowView(i), train.X[i*width:(i+1)*width])
		x.Set(i, width, 1)
	}
	var gram mat.SymDense
	gram.SymOuterK(1, x.T())
	var right mat.Dense
	right.Mul(x.T(), mat.NewDense(n, outputs, train.Y))
	best, chosen, least := (*Linear)(nil), 0.0, math.Inf(1)
	for _, s := range tried {
		with := mat.NewSymDense(width+1, nil)
		with.CopySym(&gram)
		for j := range width {
			with.SetSym(j, j, gram.At(j, j)+s*float64(n))
		}
		var chol mat.Cholesky
		var w mat.Dense
		if !chol.Factorize(with) || chol.SolveTo(&w, &right) != nil {
			continue
		}
		l := &Linear{Scale: scale, Weights: rounded(w.RawMatrix().Data), Outputs: outputs}
		loss, y := 0.0, make([]float64, outputs)
		for i := range valid.Len() {
			l.predict(valid.X[i*width:(i+1)*width], y)
			for k := range y {
				loss += math.Abs(y[k] - valid.Y[i*outputs+k])
			}
		}
		if best == nil || loss < least {
			best, chosen, least = l, s, loss
		}
	}
	return best, chosen
}

// entropy returns the mean cross-entropy on examples.
func (l *Linear) entropy(e *Examples) (loss float64) {
	y := make([]float64, l.Outputs)
	for i := range e.Len() {
		l.predict(e.X[i*e.Width:(i+1)*e.Width], y)
		loss -= logSoftmax(y)[e.Class[i]] / float64(e.Len())
	}
	return loss
}

// predict sets y to the outputs for scaled features.
func (l *Linear) predict(x, y []float64) {
	for k, w := range l.Weights[len(x)*l.Outputs:] {
		y[k] = float64(w)
	}
	for j, v := range x {
		for k, w := range l.Weights[j*l.Outputs : (j+1)*l.Outputs] {
			y[k] += v * float64(w)
		}
	}
}

// Predict sets y to the outputs for features, which it scales in place.
func (l *Linear) Predict(x, y []float64) {
	l.Scale.Apply(x)
	l.predict(x, y)
}

// Check returns an error unless the model has the shape.
func (l *Linear) Check(width, outputs int) error {
	if l.Outputs != outputs || len(l.Weights) != (width+1)*outputs {
		return fmt.Errorf("found %d weights for %d outputs, want %d for %d", len(l.Weights), l.Outputs,
			(width+1)*outputs, outputs)
	}
	return l.Scale.check(width)
}

// rounded returns weights as they are stored.
func rounded(w []float64) []float32 {
	all := make([]float32, len(w))
	for i, x := range w {
		all[i] = float32(x)
	}
	return all
}
