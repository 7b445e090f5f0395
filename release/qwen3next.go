package release

import (
	"slices"

	"github.com/hippo-ssm/hippo/model"
)

// qwen35, qwen35MoE and qwen3Next are the families of Qwen3.5, Qwen3.5 with experts and Qwen3-Next (Alibaba): gated
// delta networks, in every fourth layer attention with a gate, then an MLP or experts. Every norm except that of the
// heads multiplies by 1 + w. Releases of Qwen3.5 also accept pictures; only the language model is read.
var (
	qwen35 = hfFamily{options: func() hfOptions {
		return &qwen35Options{qwenHybrid: qwenDefaults()}
	}}
	qwen35MoE = hfFamily{options: func() hfOptions {
		return &qwen35MoEOptions{qwenHybrid: qwenDefaults(), qwenExperts: qwenExpertsDefaults(256, 8)}
	}}
	qwen3Next = hfFamily{options: func() hfOptions {
		return &qwen3NextOptions{qwenHybrid: qwenDefaults(), qwenExperts: qwenExpertsDefaults(512, 10), Normalize: true,
			Step: 1}
	}}
)

// qwenHybrid holds the fields that the three families share.
type qwenHybrid struct {
	hfAttention
	hfLinearHeads
	Kinds    []string `json:"layer_types"`
	Interval int      `json:"full_attention_interval"`
	Inner    int      `json:"intermediate_size"`
	Eps      float64  `json:"rms_norm_eps"`
	Act      *string  `json:"hidden_act"`
}

func qwenDefaults() qwenHybrid {
	return qwenHybrid{hfAttention: hfAttention{Heads: 16, KVHeads: pointer(2), HeadDim: pointer(256)},
		hfLinearHeads: hfLinearHeads{KeyHeads: 16, Heads: 32, KeyDim: pointer(128), ValueDim: pointer(128), Conv: 4},
		Interval:      4, Inner: 5632, Eps: 1e-6}
}

// hfLinearHeads holds the fields of gated delta networks.
type hfLinearHeads struct {
	KeyHeads int  `json:"linear_num_key_heads"`
	Heads    int  `json:"linear_num_value_heads"`
	KeyDim   *int `json:"linear_key_head_dim"`
	ValueDim *int `json:"linear_value_head_dim"`
	Conv     int  `json:"linear_conv_kernel_dim"`
}

// options returns the options of the mixer.
func (h *hfLinearHeads) options(c *hfCommon, eps float64) given {
	if h.KeyHeads < 1 || h.Heads < 1 || h.Heads%h.KeyHeads != 0 {
		c.failf("linear_num_key_heads, linear_num_value_heads: found %d and %d, want the first to divide the second",
			h.KeyHeads, h.Heads)
	}
	for field, n := range map[string]*int{"linear_key_head_dim": h.KeyDim, "linear_value_head_dim": h.ValueDim,
		"linear_conv_kernel_dim": &h.Conv} {
		if *n < 1 {
			c.failf("%s: found %d, want at least 1", field, *n)
		}
	}
	return given{"num_k_heads": h.KeyHeads, "num_v_heads": h.Heads, "head_k_dim": *h.KeyDim, "head_v_dim": *h.ValueDim,
		"d_conv": h.Conv, "norm_eps": eps}
}

// kinds returns the kinds of layers: linear_attention, and full_attention at regular intervals.
func (o *qwenHybrid) kinds(c *hfCommon) []string {
	kinds := o.Kinds
	if len(kinds) == 0 {
		if o.Interval < 1 {
			c.failf("full_attention_interval: found %d, want at least 1", o.Interval)
			return nil
		}
		kinds = slices.Repeat([]string{"linear_attention"}, c.Layers)
		for i := o.Interval - 1; i < c.Layers; i += o.Interval {
			kinds[i] = "full_attention"
		}
	}
	if len(kinds) != c.Layers {
		c.failf("layer_types: found %d, want num_hidden_layers %d", len(kinds), c.Layers)
	}
	return kinds
}

// published returns the model without its feed-forward parts. half returns the feed-forward part of a layer as "/PART",
// or "" for that of the configuration. linear contains the names of a gated delta network.
func (o *qwenHybrid) published(c *hfCommon, half func(layer int) string, linear []rename) (m published) {
	c.wantAct("hidden_act", o.Act, "silu")
	c.someLayers()
	attention, headDim, kv := o.hfAttention.options(c, o.hfAttention.Heads)
	attention["norm_eps"] = o.Eps
	attention = attention.rotated(c.dim(headDim, 0.25), c.plainRotary(10000))
	mixers := map[string]string{
		"mamba":     entry("gated-deltanet", o.hfLinearHeads.options(c, o.Eps)),
		"attention": entry("gated-attention", attention),
	}
	layers := c.entriesOf("layer_types", o.kinds(c), mixers, "linear_attention or full_attention")
	for i := range layers {
		layers[i] += half(i)
	}
	m.config = newHFConfig(layers, qwenMLP, o.Eps)
	m.config.DInner, m.config.Norm = o.Inner, model.NormRMSPlusOne
	m.names = decoderNames("model.norm.", append(layerNorms("input_layernorm", "post_attention_layernorm"),
		swiGLU("mlp.", "gate_proj", "up_proj", "down_proj")...),
		map[string][]rename{
			"gated-deltanet":  append(linear, to("", "linear_attn.")),
			"gated-attention": attentionNames("self_attn.", "o_proj", 2*o.hfAttention.Heads, kv),
		})
	m.names.apart = []string{"model.visual.", "mtp."}
	m.mtp, m.names.mtp = mixers["attention"], &mtpNames{prefix: "mtp.", layers: "mtp.layers.",
		others: map[string]string{"backbone.ln_f.weight": "mtp.norm.weight"}}
	if c.Text != nil {
		m.names.embedding, m.names.norm = []string{"model.language_model.embed_tokens."}, "model.language_model.norm."
		m.names.layers = "model.language_model.layers."
	}
	return m
}

// qwenMLP is the entry of the MLP in layers without experts.
const qwenMLP = "swiglu(bias=false)"

// qwenExperts holds the fields of experts.
type qwenExperts struct {
	Experts int     `json:"num_experts"`
	Used    int     `json:"num_experts_per_tok"`
	Expert  int     `json:"moe_intermediate_size"`
	Shared  int     `json:"shared_expert_intermediate_size"`
	Balance float64 `json:"router_aux_loss_coef"`
}

func qwenExpertsDefaults(experts, used int) qwenExperts {
	return qwenExperts{Experts: experts, Used: used, Expert: 512, Shared: 512, Balance: 0.001}
}

// part returns the entry of the experts, and the names of the tensors that all positions use.
func (e *qwenExperts) part(c *hfCommon, normalize bool) (part string, names []rename) {
	if !c.someExperts("num_experts, num_experts_per_tok", e.Experts, e.Used) {
		return model.MLPNone, nil
	}
	return entry("swiglu-experts", given{"experts": e.Experts, "top_k": e.Used, "d_inner": e.Expert,
			"d_shared": e.Shared, "shared_gate": e.Shared > 0, "normalize": normalize, "balance": e.Balance}),
		[]rename{to("mlp.router.", "mlp.gate."), to("mlp.shared.gate.", "mlp.shared_expert.gate_proj."),
			to("mlp.shared.fc1.", "mlp.shared_expert.up_proj."), to("mlp.shared.fc2.", "mlp.shared_expert.down_proj."),
			to("mlp.shared_gate.", "mlp.shared_expert_gate.")}
}

// qwenApart returns the names of experts with separate tensors.
func qwenApart(experts int) []rename {
	return expertNames("mlp.", "mlp.", experts, "gate_proj", "up_proj", "down_proj")
}

type qwen35Options struct{ qwenHybrid }

func (o *qwen35Options) model(c *hfCommon) published {
	return o.published(c, func(int) string { return "" }, nil)
}

type qwen35MoEOptions struct {
	qwenHybrid
	qwenExperts
}

func (o *qwen35MoEOptions) model(c *hfCommon) published {
	part, names := o.part(c, true)
	m := o.published(c, func(int) string { return "" }, nil)
	if c.err != nil {
		return m
	}
	m.config.MLP, m.config.DInner = part, o.Shared
	m.names.layer = slices.Concat(m.names.layer, names,
		stackedNames("mlp.", "mlp.experts.gate_up_proj", "mlp.experts.down_proj", o.Experts))
	m.names.apartExperts = qwenApart(o.Experts)
	return m
}

type qwen3NextOptions struct {
	qwenHybrid
	qwenExperts
	Normalize bool  `json:"norm_topk_prob"`
	Dense     []int `json:"mlp_only_layers"`
	Step      int   `json:"decoder_sparse_step"`
}

func (o *qwen3NextOptions) model(c *hfCommon) published {
	if o.Step < 1 {
		return c.failf("decoder_sparse_step: found %d, want at least 1", o.Step)
	}
	part, names := o.part(c, o.Normalize)
	m := o.published(c, func(i int) string {
		if slices.Contains(o.Dense, i) || (i+1)%o.Step != 0 {
			return "/" + qwenMLP
		}
		return ""
	}, o.hfLinearHeads.byKeyHead(c))
	if c.err != nil {
		return m
	}
	m.config.MLP = part
	m.names.layer = slices.Concat(m.names.layer, names, qwenApart(o.Experts))
	return m
}

// maxPieces is the maximum number of pieces that a tensor consists of.
const maxPieces = 1 << 14

// pieces returns n successive pieces of a tensor that is divided into of equal pieces. The first is number from.
func pieces(name string, from, n, of int) []model.Source {
	sources := make([]model.Source, n)
	for i := range sources {
		sources[i] = model.Source{Name: name, Part: from + i, Of: of}
	}
	return sources
}

// byKeyHead returns the names of projections whose rows are grouped by key heads.
func (h *hfLinearHeads) byKeyHead(c *hfCommon) []rename {
	if c.err != nil || h.KeyHeads < 1 || h.Heads < h.KeyHeads || *h.KeyDim < 1 || *h.ValueDim < 1 {
		return nil // options reports the error
	}
	d := deltaSizes{keyHeads: h.KeyHeads, heads: h.Heads, keyDim: *h.KeyDim, valueDim: *h.ValueDim}
	names, fit := keyHeadNames(d, "linear_attn.in_proj_qkvz.", "linear_attn.in_proj_ba.")
	if !fit {
		c.failf("linear_num_key_heads, linear_key_head_dim, linear_value_head_dim: found %d, %d and %d, want sizes "+
			"that cut the projections into at most %d equal pieces", h.KeyHeads, *h.KeyDim, *h.ValueDim, maxPieces)
	}
	return names
}

// deltaSizes holds the sizes of a gated delta network.
type deltaSizes struct{ keyHeads, heads, keyDim, valueDim, taps int }

// keyHeadNames returns the names of projections that two tensors combine. For each key head, the tensor qkvz contains
// the rows of its query, its key, its values and their gates, and the tensor ba contains the rows of b and a. The last
// two names are those of ba. fit reports whether the number of pieces is within the limit.
func keyHeadNames(d deltaSizes, qkvz, ba string) (names []rename, fit bool) {
	perGroup := d.heads / d.keyHeads * d.valueDim
	unit := divisor(d.keyDim, perGroup)
	keys, values := d.keyDim/unit, perGroup/unit // pieces of one head
	each := 2 * (keys + values)
	if d.keyHeads > maxPieces/each {
		return nil, false
	}
	ofHeads := func(name string, from, n, each int) (sources []model.Source) {
		for head := range d.keyHeads {
			sources = append(sources, pieces(name, head*each+from, n, d.keyHeads*each)...)
		}
		return sources
	}
	return []rename{
		{"in_proj_qkv.", slices.Concat(ofHeads(qkvz, 0, keys, each), ofHeads(qkvz, keys, keys, each),
			ofHeads(qkvz, 2*keys, values, each))},
		{"in_proj_z.", ofHeads(qkvz, 2*keys+values, values, each)},
		{"in_proj_b.", ofHeads(ba, 0, 1, 2)}, {"in_proj_a.", ofHeads(ba, 1, 1, 2)},
	}, true
}

// divisor returns the greatest common divisor of two positive numbers.
func divisor(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
