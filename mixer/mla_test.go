package mixer

import (
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
)

// normOf returns the function x/√(mean(x²)+eps)·w.
func normOf(n *nn.RMSNorm) func(x []float64) []float64 {
	one := plusOneNormOf(n) // by 1 + w
	w := read(n.Weight.Tensor)
	return func(x []float64) []float64 {
		y := one(x)
		for i := range y {
			y[i] *= float64(w[i]) / (1 + float64(w[i]))
		}
		return y
	}
}

// TestMLAFormula compares with the paper's formula before absorption (§2.1.2, §2.1.3): every head has its own keys and
// values, computed from the latent vector, and each key is followed by the shared part. It tests DeepSeek-V2's form,
// with low-rank queries and a rotated part, and that of Kimi Linear. The model's golden, 13_hf_kimi_linear, has the
// official results of the latter.
func TestMLAFormula(t *testing.T) {
	golden.Of(t, "mla")
	const heads, n, p, v, rank = 2, 3, 6, 5, 7
	for name, c := range map[string]struct {
		rotary, queryRank string
		turned            int
	}{"kimi": {"0", "0", 0}, "deepseek": {"4", "3", 4}} {
		t.Run(name, func(t *testing.T) {
			m := variant{build: MLAInfo.New, cfg: Config{NumHeads: heads, Options: Options{
				"qk_nope_head_dim": "3", "qk_rope_head_dim": "6", "v_head_dim": "5", "kv_lora_rank": "7",
				"q_lora_rank": c.queryRank, "rotary_emb_dim": c.rotary, "rotary_base": "100"}}}.mixer(t).(*MLA)
			m.Norm.Weight.CopyFrom([]float32{0.5, 1.3, 0.2, 1, 0.7, 2.1, 1.4})
			queries := func(u matrix) matrix { return u.each(affine(m.Q)) }
			if m.QDown != nil {
				m.QNorm.Weight.CopyFrom([]float32{0.6, 1.2, 1.7})
				queries = func(u matrix) matrix {
					return u.each(affine(m.QDown)).each(normOf(m.QNorm)).each(affine(m.Q))
				}
			}
			checkFormula(t, m, 70, func(u matrix) matrix {
				q, kv := queries(u), u.each(affine(m.KV))
				latent, shared := kv.columns(0, rank).each(normOf(m.Norm)), kv.columns(rank, rank+p)
				turn := func(x []float64, i int) []float64 { return turnedBy(x, i, c.turned, 100) }
				out := make(matrix, len(u))
				for h := range heads {
					var k, val matrix
					keys, values := read(m.K[h].Tensor), read(m.V[h].Tensor)
					for i, x := range latent {
						key, value := make([]float64, n), make([]float64, n+p) // as wide as a key
						for r, x := range x {
							for j := range n {
								key[j] += float64(keys[r*n+j]) * x
							}
							for j := range v {
								value[j] += float64(values[j*rank+r]) * x
							}
						}
						k, val = append(k, append(key, turn(shared[i], i)...)), append(val, value)
					}
					for i := range u {
						query := q[i][h*(n+p):][:n+p]
						query = append(append([]float64(nil), query[:n]...), turn(query[n:], i)...)
						out[i] = append(out[i], attended(query, k[:i+1], val[:i+1], 1)[:v]...)
					}
				}
				return out.each(affine(m.Out))
			})
		})
	}
}
