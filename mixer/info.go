package mixer

import "github.com/hippo-ssm/hippo/internal/config"

// Info describes a mixer that a configuration can name. Each mixer has one, beside its code; the list of all is in
// package model.
type Info struct {
	Name  string // in configurations
	Paper string // title and place
	Time  string // for l positions forward, in big-O terms of l and the widths
	State string // numbers that the state holds for each sequence
	Causal,
	Bidirectional, // can also look ahead, for encoders
	Recurrent bool // the state does not grow with the sequence
	Builder
	// Tiny is the shape of the preset NAME-tiny.
	Tiny Tiny
}

// Builder creates the mixers of an Info.
type Builder struct {
	// New returns a mixer whose parameters have no values yet.
	New func(Config) (Mixer, error)
	// Options returns a pointer to the struct of the options that an entry in a list of layers can set, with their
	// defaults for cfg.
	Options func(cfg Config) any
}

// builder returns the Builder of mixers with options O. build is called with the defaults, changed by Config.Options.
func builder[O any](defaults func(Config) O, build func(Config, O) (Mixer, error)) Builder {
	return Builder{
		New: func(cfg Config) (Mixer, error) {
			o := defaults(cfg)
			if err := cfg.Options.into(&o); err != nil {
				return nil, err
			}
			return build(cfg, o)
		},
		Options: func(cfg Config) any { o := defaults(cfg); return &o },
	}
}

// Tiny is the shape of a small language model of a mixer alone, and how it is trained. All are of about as many
// parameters as the preset tiny: what a mixer needs less goes into the MLP or into more layers. Windows, blocks and
// kernels are such as suit the 256 tokens that they are trained on.
type Tiny struct {
	Options                string // of the mixer: OPTION=VALUE,...
	DModel, NLayer, DInner int    // no MLP where DInner is 0, as for mixers with a gate of their own
	MLP                    string // empty for that of the preset tiny
	// Peak learning rates, of all parameters and of the systems; 0 for those of the preset tiny.
	LR, SSMLR float64
}

// Options are what an entry in a list of layers sets for its mixer alone, such as d_state=16 in mamba(d_state=16), as
// texts.
type Options map[string]string

// into sets the fields of the struct that o points to. The error names options that it does not have.
func (o Options) into(dst any) error { return config.Pairs(dst, o) }
