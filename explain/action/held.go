package action

import "slices"

// Held returns the names of what is held fixed between the mixer's values and its output.
func (a *Action) Held() []string {
	var out []string
	for _, s := range a.steps {
		words, ok := held[s.name]
		if ok && !slices.Contains(out, words) {
			out = append(out, words)
		}
	}
	return out
}

// held names what each operation holds fixed. Filters and kernels are the same for every sequence.
var held = map[string]string{
	"Mul": "gates", "Gate": "gates", "GLU": "gates",
	"Activate": "the factor f(z)/z of activations", "AddRMSNorm": "the size that the norm divides by",
	"AddLayerNorm":  "the size that the norm divides by",
	"SelectiveScan": "the steps Δ, and B and C", "SelectiveScanComplex": "the steps Δ, and B and C",
	"SSD":        "the steps, and B and C",
	"DeltaRule":  "the decays, and what is erased and written for a value",
	"MLSTM":      "the gates, and the weights of what is written",
	"Trapezoid":  "the steps, and B and C",
	"SLSTM":      "the gates, and the factor tanh(z)/z",
	"RGLRU":      "the gates of the recurrence",
	"Recurrence": "the factor tanh(z)/z", "Attention": "the attention weights",
	"CrossAttention": "the attention weights", "LinearAttention": "the attention weights",
	"SquaredReLUAttention": "the attention weights",
	"BucketAttention":      "the buckets picked and the attention weights",
	"SpAtten":              "the tokens left and the attention weights",
	"MixBlocks":            "the weights of the blocks",
	"DiagSSM":              "the gates around the kernel", "GatedLongConv": "the gates around the kernel",
}
