package kernel

// DeltaStep steps a state S (dk, dv) of the delta rule by one position:
//
//	S ← Diag(decay)·S + a·xᵀ,   y = Sᵀ·q
//
// decay has a number for each row or one for all of them.
func DeltaStep(y, s, decay, a, x, q []float32) {
	dk, dv := len(q), len(x)
	clear(y)
	for i := range dk {
		row := s[i*dv:][:dv]
		d := float32(1)
		if len(decay) > 1 {
			d = decay[i]
		} else if len(decay) == 1 {
			d = decay[0]
		}
		for j, v := range row {
			v = float32(d*v) + float32(a[i]*x[j])
			row[j] = v
			y[j] += float32(q[i] * v)
		}
	}
}
