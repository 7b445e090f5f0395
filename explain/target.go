package explain

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// Part is a part of a layer.
type Part string

// The parts.
const (
	WholeBlock  Part = ""        // what the layer adds to the stream
	MixerPart   Part = "mixer"   // what its mixer adds
	MLPPart     Part = "mlp"     // what its feed-forward part adds
	HeadPart    Part = "head"    // a head's part of the input of the mixer's last projection
	ChannelPart Part = "channel" // a channel of that input
	StatePart   Part = "state"   // what the layer carries from token to token
)

// Target is a part of a model that can be ablated, or replaced by its value in another text.
type Target struct {
	Layer int
	Part  Part
	Index int // index of a head or a channel
	// Mixer is the mixer of the head or channel, in a layer with several mixers.
	Mixer string
}

var targetForm = regexp.MustCompile(
	`^layer(\d+)(?:\.(mixer|mlp|state)|(?:\.([a-z][a-z0-9-]*))?\.(head|channel)(\d+))?$`)

// ParseTarget parses layer3, layer3.mixer, layer3.mlp, layer3.head2, layer3.channel17 or layer3.state and, for a layer
// with several mixers, layer3.attention.head2.
func ParseTarget(text string) (Target, error) {
	m := targetForm.FindStringSubmatch(text)
	if m == nil {
		return Target{}, fmt.Errorf("found %q, want layerN, layerN.mixer, layerN.mlp, layerN.headN, "+
			"layerN.channelN or layerN.state, such as layer3.head2", text)
	}
	t := Target{Part: Part(m[2] + m[4]), Mixer: m[3]}
	var err error
	if t.Layer, err = strconv.Atoi(m[1]); err != nil {
		return t, fmt.Errorf("found %q, want a smaller number of a layer", text)
	}
	if m[5] != "" {
		if t.Index, err = strconv.Atoi(m[5]); err != nil {
			return t, fmt.Errorf("found %q, want a smaller number of a %s", text, t.Part)
		}
	}
	return t, nil
}

// String returns the target in the form that ParseTarget parses.
func (t Target) String() string {
	s := fmt.Sprintf("layer%d", t.Layer)
	switch t.Part {
	case WholeBlock:
		return s
	case HeadPart, ChannelPart:
		if t.Mixer != "" {
			s += "." + t.Mixer
		}
		return fmt.Sprintf("%s.%s%d", s, t.Part, t.Index)
	}
	return s + "." + string(t.Part)
}

// Interior returns the input of the last projection of a layer's mixer, or of one of several mixers.
func (g *Language) Interior(layer int, part string) (mixer.Interior, bool) {
	_, in, ok := mixer.Inside(g.Backbone.Blocks[layer].Mixer, part,
		func(_ *autograd.Tape, x *tensor.Tensor) *tensor.Tensor { return x })
	return in, ok
}

// CheckLayers returns an error unless the layers exist.
func (g *Language) CheckLayers(layers ...int) error {
	n := len(g.Backbone.Blocks)
	for _, i := range layers {
		if i < 0 || i >= n {
			return fmt.Errorf("found layer %d, want 0 to %d", i, n-1)
		}
	}
	return nil
}

// CheckTarget returns an error unless the part exists. The error lists what exists.
func (g *Language) CheckTarget(t Target) error {
	if err := g.CheckLayers(t.Layer); err != nil {
		return err
	}
	b, in, inside := g.Backbone.Blocks[t.Layer], mixer.Interior{}, false
	if t.Part == HeadPart || t.Part == ChannelPart {
		in, inside = g.Interior(t.Layer, t.Mixer)
	}
	switch t.Part {
	case MLPPart:
		if b.MLP == nil {
			return fmt.Errorf("%s: found no MLP in it, want layer%d or layer%d.mixer", g.LayerName(t.Layer), t.Layer,
				t.Layer)
		}
	case HeadPart:
		switch {
		case !inside:
			return g.noInterior(t.Layer)
		case in.Heads == 0:
			first, last := t, t
			first.Part, last.Part, first.Index, last.Index = ChannelPart, ChannelPart, 0, in.Channels-1
			return fmt.Errorf("%s: found no heads in it, want a channel from %s to %s", g.LayerName(t.Layer), first,
				last)
		case t.Index >= in.Heads:
			return fmt.Errorf("%s: found head %d, want 0 to %d", g.LayerName(t.Layer), t.Index, in.Heads-1)
		}
	case ChannelPart:
		switch {
		case !inside:
			return g.noInterior(t.Layer)
		case t.Index >= in.Channels:
			return fmt.Errorf("%s: found channel %d, want 0 to %d", g.LayerName(t.Layer), t.Index, in.Channels-1)
		}
	case StatePart:
		if !g.Causal() {
			return fmt.Errorf("%s: found a model that looks ahead, which has no state; "+
				"want layer%d or another of its parts", g.LayerName(t.Layer), t.Layer)
		}
		s, err := g.StateAfter(context.Background(), []int32{0})
		if err != nil {
			return err
		}
		if s.Mixers[t.Layer].Size() == 0 {
			return fmt.Errorf("%s: found no state in it, want a layer with a mixer", g.LayerName(t.Layer))
		}
	}
	return nil
}

// noInterior returns the error for a layer with several mixers if none, or an unknown one, is named.
func (g *Language) noInterior(layer int) error {
	want := fmt.Sprintf("layer%d.mixer", layer)
	for _, part := range mixer.Parts(g.Backbone.Blocks[layer].Mixer) {
		want += fmt.Sprintf(", or layer%d.%s.channel0 and so on", layer, part)
	}
	return fmt.Errorf("%s: found no single mixer to look into, want %s", g.LayerName(layer), want)
}

// Site is where the values of a part can be observed.
type Site struct {
	Layer   int
	Place   Place
	Columns []int // columns of the values there; nil for all
	Part    string
}

// Sites returns the sites in a layer that make up a part. A state has none.
func (g *Language) Sites(t Target) []Site {
	switch t.Part {
	case MixerPart:
		return []Site{{Layer: t.Layer, Place: MixerOut}}
	case MLPPart:
		return []Site{{Layer: t.Layer, Place: MLPOut}}
	case HeadPart:
		in, _ := g.Interior(t.Layer, t.Mixer)
		return []Site{{t.Layer, MixerInner, in.Of(t.Index), t.Mixer}}
	case ChannelPart:
		return []Site{{t.Layer, MixerInner, []int{t.Index}, t.Mixer}}
	}
	all := []Site{{Layer: t.Layer, Place: MixerOut}}
	if g.Backbone.Blocks[t.Layer].MLP != nil {
		all = append(all, Site{Layer: t.Layer, Place: MLPOut})
	}
	return all
}

// Read returns a hook that passes the values of a site to use, one token at a time. use reports whether it has changed
// them.
func (s Site) Read(use func(token int, values []float32) bool) Hook {
	see := func(at, width int, x []float32) (changed bool) {
		columns := s.Columns
		part := make([]float32, len(columns))
		for i := range len(x) / width {
			row := x[i*width:][:width]
			if columns == nil {
				changed = use(at+i, row) || changed
				continue
			}
			for j, c := range columns {
				part[j] = row[c]
			}
			if use(at+i, part) {
				changed = true
				for j, c := range columns {
					row[c] = part[j]
				}
			}
		}
		return changed
	}
	return Hook{s.Layer, s.Place, see, s.Part}
}

// LayerTargets returns all layers.
func (g *Language) LayerTargets() []Target {
	out := make([]Target, len(g.Backbone.Blocks))
	for i := range out {
		out[i].Layer = i
	}
	return out
}

// StateTargets returns the states of all layers that have their own state.
func (g *Language) StateTargets() (out []Target) {
	for i, b := range g.Backbone.Blocks {
		if t := (Target{Layer: i, Part: StatePart}); b.Shared == nil && g.CheckTarget(t) == nil {
			out = append(out, t)
		}
	}
	return out
}

// HeadTargets returns the heads of a layer, or its channels if it has no heads. It returns an error if there is no such
// layer, or if it has neither.
func (g *Language) HeadTargets(layer int) ([]Target, error) {
	if err := g.CheckLayers(layer); err != nil {
		return nil, err
	}
	names := mixer.Parts(g.Backbone.Blocks[layer].Mixer)
	if names == nil {
		names = []string{""}
	}
	var out []Target
	for _, name := range names {
		in, ok := g.Interior(layer, name)
		if !ok {
			continue
		}
		part, n := HeadPart, in.Heads
		if n == 0 {
			part, n = ChannelPart, in.Channels
		}
		for i := range n {
			out = append(out, Target{layer, part, i, name})
		}
	}
	if len(out) == 0 {
		return nil, g.noInterior(layer)
	}
	return out, nil
}

// Movable returns an error unless the meaning of a layer's state is independent of the number of tokens before it. A
// state that stores something for each token is not movable.
func (g *Language) Movable(layer int, s *model.State) error {
	bound := fmt.Errorf("%s stores something of every token, so its state fits only after as many tokens",
		g.LayerName(layer))
	b := g.Backbone.Blocks[layer]
	if b.Shared != nil || b.Mixer.Traits().Growth > 0 || b.Mixer.Traits().MaxLength > 0 {
		return bound
	}
	fresh, now := mixer.StateParts(g.Backbone.NewState().Mixers[layer]), mixer.StateParts(s.Mixers[layer])
	same := func(a, b mixer.StatePart) bool { return a.Name == b.Name && slices.Equal(a.Shape(), b.Shape()) }
	numbered := func(p mixer.StatePart) bool { return p.Kind == mixer.Position }
	if !slices.EqualFunc(fresh, now, same) || slices.ContainsFunc(now, numbered) {
		return bound
	}
	return nil
}
