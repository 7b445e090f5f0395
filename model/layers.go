package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/mixer"
)

// An entry of the list of layers describes one layer:
//
//	MIXER                 a mixer, and the feed-forward part that Config.MLP names
//	MIXER/FEEDFORWARD     another feed-forward part, or none
//	MIXER+MIXER           several mixers of the same input, whose outputs are added
//	FEEDFORWARD           a feed-forward part in the place of the mixer
//	norm-after>MIXER      norms after the mixer and after the feed-forward part, not before them
//	zamba2-shared>MIXER   a mixer that sees more than the stream: see mixer.Shared
//
// Each part can have its own options, NAME(OPTION=VALUE,...). A feed-forward part alone is followed by none.

// parseLayers reads "h3*2,attention(num_heads=4),h3*3". Entries keep their options.
func parseLayers(text string) ([]string, error) {
	var plan []string
	for _, part := range splitOutside(text, ',') {
		entry, n := strings.TrimSpace(part), 1
		if at := strings.LastIndexByte(entry, '*'); at > strings.LastIndexByte(entry, ')') {
			var err error
			if n, err = strconv.Atoi(strings.TrimSpace(entry[at+1:])); err != nil || n < 1 {
				return nil, fmt.Errorf("found %q, want NAME or NAME*COUNT", part)
			}
			entry = strings.TrimSpace(entry[:at])
		}
		if n > maxLayers-len(plan) {
			return nil, fmt.Errorf("found more than the limit of %d layers", maxLayers)
		}
		for range n {
			plan = append(plan, entry)
		}
	}
	return plan, nil
}

// splitOutside splits a text at the separators that are not inside parentheses.
func splitOutside(text string, separator rune) []string {
	var parts []string
	depth, from := 0, 0
	for i, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == separator && depth <= 0:
			parts, from = append(parts, text[from:i]), i+1
		}
	}
	return append(parts, text[from:])
}

// layer is the layer that an entry describes.
type layer struct {
	kind   string // names of its mixers
	mixer  mixer.Mixer
	shared *mixer.Shared // or nil
	mlp    mixer.Mixer   // or nil
	after  bool          // norms come after its parts
}

// sharedName is the name, in an entry, of a block that several layers share.
const sharedName = "zamba2-shared"

// normAfter stands before a mixer in an entry and means that norms come after the parts of the layer (2 OLMo 2 Furious,
// arXiv:2501.00656, §2.1).
const normAfter = "norm-after"

// newLayer creates the layer of an entry of a plan. blocks holds the shared blocks of the layers before it.
func (c *Config) newLayer(entry string, cfg mixer.Config, shape feedForwardShape, blocks mixer.SharedBlocks,
	encoder bool) (l layer, err error) {
	halves := splitOutside(entry, '/')
	if len(halves) > 2 {
		return l, fmt.Errorf("found %q, want MIXER or MIXER/FEEDFORWARD", entry)
	}
	var names []string
	var parts []mixer.Mixer
	alone := false
	mixers := halves[0]
	if from := splitOutside(mixers, '>'); len(from) > 1 {
		mixers = strings.Join(from[1:], ">")
		if l.after = from[0] == normAfter; !l.after {
			if l.shared, err = newShared(from[0], cfg, blocks); err != nil {
				return l, err
			}
		}
	}
	for _, part := range splitOutside(mixers, '+') {
		name, m, isMixer, err := newPart(part, cfg, shape, encoder)
		if err != nil {
			return l, err
		}
		if slices.Contains(names, name) {
			return l, fmt.Errorf("found %s twice in a layer, want different mixers", name)
		}
		names, parts, alone = append(names, name), append(parts, m), alone || !isMixer
	}
	l.kind, l.mixer = strings.Join(names, "+"), parts[0]
	if l.shared != nil {
		l.kind = sharedName + ">" + l.kind
	}
	if len(parts) > 1 {
		l.mixer = mixer.Parallel(names, parts)
	}
	switch {
	case len(halves) == 2:
		l.mlp, err = newFeedForward(halves[1], shape)
	case !alone:
		l.mlp, err = newFeedForward(c.MLP, shape)
	}
	if l.after && err == nil {
		l.mixer = mixer.NormedAfter(l.mixer, c.newNorm())
		if l.mlp != nil {
			l.mlp = mixer.NormedAfter(l.mlp, c.newNorm())
		}
	}
	return l, err
}

// EntryParts returns the mixers of an entry of a plan and its feed-forward part, or "" for the feed-forward part of the
// configuration. A shared block is the first of the mixers. A feed-forward part in the place of the mixer is returned
// as a mixer, with MLPNone as the feed-forward part.
func EntryParts(entry string) (mixers []string, feedForward string) {
	halves := splitOutside(entry, '/')
	for _, part := range splitOutside(halves[0], '>') {
		mixers = append(mixers, splitOutside(part, '+')...)
	}
	if len(halves) > 1 {
		return mixers, halves[1]
	}
	for _, part := range mixers {
		if name, _, err := ParseEntry(part); err == nil && feedForwards[name] != nil {
			return mixers, MLPNone
		}
	}
	return mixers, ""
}

// PartOptions returns the options of a mixer or a feed-forward part, with the values that they have in this
// configuration if an entry leaves them out. It returns nil for other names.
func (c *Config) PartOptions(name string) []config.Described {
	name = cmp.Or(renamed[name], name)
	for _, m := range registry {
		if m.Name == name {
			return config.Describe(m.Options(c.mixerConfig(1)))
		}
	}
	dense := denseOptions{c.Inner(), true}
	switch {
	case strings.HasSuffix(name, expertsSuffix):
		o := defaultExperts
		return config.Describe(&o)
	case name == "gelu" || name == "relu2":
		return config.Describe(&dense)
	case feedForwards[name] != nil:
		return config.Describe(&gatedOptions{dense, 1})
	}
	return nil
}

// newShared creates the shared block before the mixer of an entry.
func newShared(entry string, cfg mixer.Config, blocks mixer.SharedBlocks) (*mixer.Shared, error) {
	name, options, err := ParseEntry(entry)
	if err != nil {
		return nil, err
	}
	if name != sharedName {
		return nil, fmt.Errorf("found %q before >, want %s", name, sharedName)
	}
	cfg.Options = options
	return mixer.NewShared(cfg, blocks)
}

// newPart creates one part of the first half of an entry: a mixer, or a feed-forward part in its place.
func newPart(entry string, cfg mixer.Config, shape feedForwardShape, encoder bool) (name string, m mixer.Mixer,
	isMixer bool, err error) {
	name, options, err := ParseEntry(entry)
	if err != nil {
		return "", nil, false, err
	}
	name = cmp.Or(renamed[name], name)
	if feedForwards[name] != nil {
		part, err := newFeedForward(entry, shape)
		return name, part, false, err
	}
	i := slices.IndexFunc(registry, func(m mixer.Info) bool { return m.Name == name })
	if i < 0 {
		names := MixerNames()
		return "", nil, false, fmt.Errorf("found mixer %q, want one of %s%s", name, strings.Join(names, ", "),
			config.DidYouMean(name, names))
	}
	scale, err := takeScales(options)
	if err != nil {
		return "", nil, false, err
	}
	cfg.Options = options
	m, err = registry[i].New(cfg)
	if err != nil {
		return "", nil, false, err
	}
	if !encoder && m.Traits().LooksAhead {
		return "", nil, false, fmt.Errorf("found %s, which looks ahead, want a causal mixer in a language model", entry)
	}
	return name, mixer.Scaled(m, scale.In, scale.Out), true, nil
}
