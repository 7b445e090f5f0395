package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/mixer"
)

// registry lists the mixers that a configuration can name.
var registry = []mixer.Info{
	mixer.H3Info,
	mixer.AttentionInfo,
	mixer.GatedAttentionInfo,
	mixer.MLAInfo,
	mixer.LinearAttentionInfo,
	mixer.RetentionInfo,
	mixer.WindowAttentionInfo,
	mixer.BigBirdInfo,
	mixer.BucketAttentionInfo,
	mixer.SparseSinkhornInfo,
	mixer.SpAttenInfo,
	mixer.S4DInfo,
	mixer.MambaInfo,
	mixer.Mamba2Info,
	mixer.Mamba3Info,
	mixer.S4Info,
	mixer.DSSInfo,
	mixer.GSSInfo,
	mixer.GMLPInfo,
	mixer.GAUInfo,
	mixer.HyenaInfo,
	mixer.MLSTMInfo,
	mixer.SLSTMInfo,
	mixer.RGLRUInfo,
	mixer.RNNInfo,
	mixer.LMUInfo,
	mixer.BlockRecurrentInfo,
	mixer.GatedConvInfo,
	mixer.DeltaNetInfo,
	mixer.GatedDeltaNetInfo,
	mixer.KDAInfo,
	mixer.GDN2Info,
	mixer.RWKV7Info,
}

// renamed maps earlier names of mixers, which configurations may still have, to current ones.
var renamed = map[string]string{
	"sinkhorn": "bucket-attention", // chooses buckets as the release does; sparse-sinkhorn follows the paper
}

// Mixers describes the mixers that a configuration can name, in the order of the registry.
func Mixers() []mixer.Info { return slices.Clone(registry) }

// MixerNames lists the names that a configuration can use, sorted.
func MixerNames() []string {
	var names []string
	for _, m := range registry {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

// MixerOptions lists the options of a mixer with their defaults.
func MixerOptions(m mixer.Info) []config.Described {
	c := DefaultConfig()
	return config.Describe(m.Options(c.mixerConfig(1)))
}

// ParseEntry splits NAME or NAME(OPTION=VALUE,...).
func ParseEntry(entry string) (name string, options mixer.Options, err error) {
	name, rest, some := strings.Cut(entry, "(")
	name = strings.TrimSpace(name)
	if !some {
		return name, nil, nil
	}
	inside, ok := strings.CutSuffix(strings.TrimSpace(rest), ")")
	if !ok {
		return "", nil, fmt.Errorf("found %q, want NAME(OPTION=VALUE,...)", entry)
	}
	options = mixer.Options{}
	for _, pair := range strings.Split(inside, ",") {
		key, value, ok := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		if _, twice := options[key]; !ok || key == "" || twice {
			return "", nil, fmt.Errorf("found %q, want NAME(OPTION=VALUE,...), each option once", entry)
		}
		options[key] = strings.TrimSpace(value)
	}
	return name, options, nil
}
