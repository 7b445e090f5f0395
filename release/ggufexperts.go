package release

import (
	"fmt"

	"github.com/hippo-ssm/hippo/model"
)

// ggufRouter is the name of a tensor that only layers with experts have.
const ggufRouter = "ffn_gate_inp.weight"

// ggufSigmoid is the value of expert_gating_func if scores are sigmoids. For a softmax the value is 1.
const ggufSigmoid = 2

// experts returns the common options of mixtures of experts with the given inner width, and the number of experts. It
// must be called only for files with experts.
func (k *ggufKeys) experts(inner int) (o given, count int) {
	count, used := k.size("expert_count", 1), k.size("expert_used_count", 1)
	if err := someExperts(k.arch+".expert_count, expert_used_count", count, used); err != nil {
		k.errs = append(k.errs, err)
		count, used = 1, 1
	}
	return given{"experts": count, "top_k": used, "d_inner": inner}, count
}

// hasExperts reports whether the file has experts.
func (k *ggufKeys) hasExperts() bool {
	return k.sizeOr("expert_count", 0, 0) > 1 || k.hasInLayers(ggufRouter)
}

// routing returns the options that control the choice of experts. Some families have no keys for them.
func (k *ggufKeys) routing(normalize bool) given {
	o := given{"choice_bias": k.hasInLayers("exp_probs_b.bias"), "scale": k.number("expert_weights_scale", 1)}
	if _, v := k.value("expert_weights_norm"); v != nil {
		normalize = k.truth("expert_weights_norm")
	}
	o["normalize"] = normalize
	switch kind := k.sizeOr("expert_gating_func", 0, ggufSigmoid); kind {
	case ggufSigmoid:
		o["sigmoid"] = true
	case 1:
	default:
		k.failf(k.arch+".expert_gating_func", "found %d, want 1 (softmax) or %d (sigmoid)", kind, ggufSigmoid)
	}
	if groups := k.sizeOr("expert_group_count", 0, 1); groups > 1 {
		o = o.with(given{"groups": groups, "top_groups": k.size("expert_group_used_count", 1)})
	}
	return o
}

// ggufExpertNames returns the names of experts. Their matrices are stacked: one tensor holds those of all experts.
func ggufExpertNames(own string, n int) []rename {
	var names []rename
	for e := range n {
		part := func(mine, theirs string) rename {
			return rename{fmt.Sprintf("%sexperts.%d.%s.", own, e, mine),
				[]model.Source{{Name: theirs + "_exps.", Part: e, Of: n, Stack: n}}}
		}
		names = append(names, part("gate", "ffn_gate"), part("fc1", "ffn_up"), part("fc2", "ffn_down"))
	}
	return names
}

// ggufRouterNames returns the names of the other tensors of a mixture of experts: routers, and shared experts.
func ggufRouterNames(own string) []rename {
	return []rename{
		to(own+"router.weight", ggufRouter), to(own+"router.bias", "exp_probs_b.bias"),
		to(own+"shared.gate.", "ffn_gate_shexp."), to(own+"shared.fc1.", "ffn_up_shexp."),
		to(own+"shared.fc2.", "ffn_down_shexp."), to(own+"shared_gate.", "ffn_gate_inp_shexp."),
		to(own+"narrow.", "ffn_latent_down."), to(own+"widen.", "ffn_latent_up."),
	}
}

// routed sets the layers. The feed-forward part of a layer is its experts if it has them, else a gated MLP.
func (k *ggufKeys) routed(p *published, experts given, count int, entryOf func(layer int) string) {
	half := "/" + entry("swiglu-experts", experts)
	k.layers(p, ggufSwiGLU(nil), func(layer int) string {
		if k.has(fmt.Sprintf("blk.%d.%s", layer, ggufRouter)) {
			return entryOf(layer) + half
		}
		return entryOf(layer)
	})
	p.names.layer = append(append(p.names.layer[:len(p.names.layer):len(p.names.layer)],
		ggufExpertNames("mlp.", count)...), ggufRouterNames("mlp.")...)
}
