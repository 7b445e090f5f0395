package mixer

import "fmt"

// WindowAttentionInfo describes causal attention to the last positions only, the sliding window of "Longformer: The
// Long-Document Transformer" (arXiv:2004.05150, §3.1): position i sees the positions j with i - window < j ≤ i. Its
// state is their keys and values, which does not grow once the window is full.
var WindowAttentionInfo = Info{
	Name:  "window-attention",
	Paper: "Longformer: The Long-Document Transformer, arXiv:2004.05150",
	Time:  "l·window·d + l·d²", State: "2·window·d",
	Causal: true, Recurrent: true, Builder: builder(windowOptionsOf, newWindowAttention),
	Tiny: Tiny{Options: "rotary_emb_dim=16,window=64", DModel: 128, NLayer: 4, DInner: 576},
}

type windowOptions struct {
	attentionOptions
	headOptions
	Window int `json:"window" help:"positions that a position sees, itself the last of them"`
}

func windowOptionsOf(c Config) windowOptions {
	return windowOptions{attentionOptionsOf(c), plainHeads(), 256}
}

// newWindowAttention returns a sliding-window attention mixer whose parameters have no values yet.
func newWindowAttention(cfg Config, o windowOptions) (Mixer, error) {
	m, err := newAttention(cfg, o.attentionOptions, o.headOptions)
	if err != nil {
		return nil, err
	}
	if o.Window < 1 {
		return nil, fmt.Errorf("window: found %d, want at least 1", o.Window)
	}
	m.opt.Window = o.Window
	return m, nil
}
