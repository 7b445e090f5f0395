package fit

// A sequence of more than mostWhole rows, such as hours of sound, is learned in pieces of pieceRows. Both are
// variables for tests.
var mostWhole, pieceRows = 1 << 20, 1 << 14

// pieces computes the prediction for a sequence from those for its pieces: their mean, weighted by rows.
type pieces struct {
	sum  *Prediction
	rows float64
}

// add adds the prediction for a piece.
func (s *pieces) add(p *Prediction, rows int) {
	scale := func(to, from []float64) {
		for i, x := range from {
			to[i] += float64(rows) * x
		}
	}
	if s.rows += float64(rows); s.sum == nil {
		sum := *p
		sum.Probabilities, sum.Quantiles = make([]float64, len(p.Probabilities)), nil
		for _, q := range p.Quantiles {
			sum.Quantiles = append(sum.Quantiles, make([]float64, len(q)))
		}
		if p.Probabilities == nil {
			sum.Probabilities = nil
		}
		s.sum = &sum
	}
	scale(s.sum.Probabilities, p.Probabilities)
	for k, q := range p.Quantiles {
		scale(s.sum.Quantiles[k], q)
	}
}

// mean returns the prediction for the sequence.
func (s *pieces) mean() *Prediction {
	for i := range s.sum.Probabilities {
		s.sum.Probabilities[i] /= s.rows
	}
	for _, q := range s.sum.Quantiles {
		for j := range q {
			q[j] /= s.rows
		}
	}
	return s.sum
}

// piece adds the prediction for some rows of a sequence.
func (d *input) piece(to *pieces, items []item) error {
	return d.sequence(items, nil, func(p *Prediction) error {
		to.add(p, len(items))
		return nil
	})
}
