package kernel

// DeltaStep steps a state S (dk, dv) of the delta rule by one position (see engine.Delta for the rule). x is the value
// that is erased or read, v the value that is written:
//
//	S ← Diag(decay)·S + a·xᵀ + k·vᵀ,   y = Sᵀ·q
//
// y, x, v (dv), s (dk, dv), decay, q, a, k (dk). Without k there is no v.
func DeltaStep(y, s, decay, q, a, x, k, v []float32) {
	dk, dv := len(q), len(y)
	s, decay, a, x = s[:dk*dv], decay[:dk], a[:dk], x[:dv]
	if k != nil {
		k, v = k[:dk], v[:dv]
	}
	if cpu.has(deltaStepCode|deltaStepTwiceCode) && dk > 0 {
		part := max(Lanes, scanWork/dk/Lanes*Lanes)
		for j := 0; j < dv; j += part {
			if n := min(part, dv-j); k == nil {
				vecDeltaStep(dk, n, dv, &s[j], &decay[0], &q[0], &y[j], &a[0], &x[j])
			} else {
				vecDeltaStepTwice(dk, n, dv, &s[j], &decay[0], &q[0], &y[j], &a[0], &x[j], &k[0], &v[j])
			}
		}
		return
	}
	clear(y)
	for i, d := range decay {
		row := s[i*dv:][:dv]
		for j, was := range row {
			row[j] = float32(d*was) + float32(a[i]*x[j])
		}
		if k != nil {
			for j, w := range v {
				row[j] += float32(k[i] * w)
			}
		}
		for j, now := range row {
			y[j] += float32(q[i] * now)
		}
	}
}
