package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/nn"
)

// feedForwardShape is the shape of a feed-forward part.
type feedForwardShape struct {
	d, inner int
	outStd   float64 // initial standard deviation of its last projection
}

// feedForwards are the feed-forward parts that a configuration can name. Each function creates one from the options of
// its entry.
var feedForwards = map[string]func(s feedForwardShape, o mixer.Options) (mixer.Mixer, error){
	"gelu":   mlp(engine.GeluTanh),
	"relu2":  mlp(engine.SquaredReLU),
	"glu":    gated(engine.Sigmoid),
	"swiglu": gated(engine.SiLU),
	"geglu":  gated(engine.GeluTanh),

	"channel-mix": channelMix,

	"swiglu" + expertsSuffix: routed(engine.SiLU, true),
	"relu2" + expertsSuffix:  routed(engine.SquaredReLU, false),
}

// denseOptions are the options of a feed-forward part that is not a mixture of experts.
type denseOptions struct {
	DInner int  `json:"d_inner"`
	Bias   bool `json:"bias"`
}

// gatedOptions are the options of a feed-forward part with a gate.
type gatedOptions struct {
	denseOptions
	GateScale float64 `json:"gate_scale"`
}

// mlp returns a function that creates parts of two matrices with an activation between them.
func mlp(a engine.Activation) func(feedForwardShape, mixer.Options) (mixer.Mixer, error) {
	return func(s feedForwardShape, given mixer.Options) (mixer.Mixer, error) {
		o := denseOptions{s.inner, true}
		if err := readFeedForward(&o, given, &o.DInner); err != nil {
			return nil, err
		}
		m := nn.NewMLP(s.d, o.DInner, s.outStd)
		m.FC1.Activation = a
		if !o.Bias {
			m.WithoutBias()
		}
		return mixer.Alone(m), nil
	}
}

// channelMix creates the feed-forward part of RWKV-7's blocks.
func channelMix(s feedForwardShape, given mixer.Options) (mixer.Mixer, error) {
	o := struct {
		DInner int `json:"d_inner"`
	}{s.inner}
	if err := readFeedForward(&o, given, &o.DInner); err != nil {
		return nil, err
	}
	return mixer.NewChannelMix(s.d, o.DInner, s.outStd), nil
}

// gated returns a function that creates parts with a gate.
func gated(a engine.Activation) func(feedForwardShape, mixer.Options) (mixer.Mixer, error) {
	return func(s feedForwardShape, given mixer.Options) (mixer.Mixer, error) {
		o := gatedOptions{denseOptions{s.inner, true}, 1}
		if err := readFeedForward(&o, given, &o.DInner); err != nil {
			return nil, err
		}
		m := nn.NewGated(s.d, o.DInner, a, s.outStd)
		m.GateScale = o.GateScale
		if !o.Bias {
			m.WithoutBias()
		}
		return mixer.Alone(m), nil
	}
}

// readFeedForward sets the options of a part and checks its inner width.
func readFeedForward(o any, given mixer.Options, inner *int) error {
	if len(given) > 0 { // reflection is the largest cost here, and there may be 10,000 layers
		if err := config.Pairs(o, given); err != nil {
			return err
		}
	}
	if *inner < 1 || *inner > 4*maxSize { // 4·d_model by default
		return fmt.Errorf("d_inner: found %d, want 1 to %d", *inner, 4*maxSize)
	}
	return nil
}

// newFeedForward returns the part of an entry NAME or NAME(OPTION=VALUE,...), or nil for MLPNone.
func newFeedForward(entry string, s feedForwardShape) (mixer.Mixer, error) {
	name, options, err := ParseEntry(entry)
	if err != nil || name == MLPNone && options == nil {
		return nil, err
	}
	build, ok := feedForwards[name]
	if !ok {
		names := append(slices.Sorted(maps.Keys(feedForwards)), MLPNone)
		return nil, fmt.Errorf("found %q, want one of %s%s", name, strings.Join(names, ", "),
			config.DidYouMean(name, names))
	}
	scale, err := takeScales(options)
	if err != nil {
		return nil, err
	}
	part, err := build(s, options)
	if err != nil {
		return nil, err
	}
	return mixer.Scaled(part, scale.In, scale.Out), nil
}

// scales are the optional factors of the inputs and outputs of a part of a layer.
type scales struct {
	In  float64 `json:"in_scale"`
	Out float64 `json:"out_scale"`
}

// takeScales removes the scales from the options of an entry and returns them.
func takeScales(options mixer.Options) (scales, error) {
	s, mine := scales{1, 1}, mixer.Options{}
	for _, key := range []string{"in_scale", "out_scale"} {
		if text, ok := options[key]; ok {
			mine[key] = text
			delete(options, key)
		}
	}
	if len(mine) == 0 {
		return s, nil
	}
	return s, config.Pairs(&s, mine)
}
