package mixer

import "github.com/hippo-ssm/hippo/internal/config"

// Info describes a mixer that a configuration can name. It is declared beside the mixer's code. Package model has the
// list of all.
type Info struct {
	Name  string // in configurations
	Paper string // title and source
	Time  string // forward, for l positions, in big-O terms of l and the widths
	State string // number of elements of the state of a sequence
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

// builder returns the Builder of mixers with options O. build is called with the defaults as changed by Config.Options.
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

// Tiny is the shape of a small language model with a single kind of mixer, and how it is trained. All have about as
// many parameters as the preset tiny: what a mixer saves goes into the MLP or into more layers. Windows, blocks and
// kernels fit the 256 tokens of the training sequences.
type Tiny struct {
	Options                string // of the mixer: OPTION=VALUE,...
	DModel, NLayer, DInner int    // DInner 0 means no MLP, as for mixers with their own gates
	MLP                    string // "" for that of the preset tiny
	// Peak learning rates, of all parameters and of the systems; 0 for those of the preset tiny.
	LR, SSMLR float64
}

// Options holds the options that an entry in a list of layers sets for its mixer only, such as d_state=16 in
// mamba(d_state=16), as texts.
type Options map[string]string

// into sets the fields of the struct that dst points to. It returns an error for options that the struct does not have.
func (o Options) into(dst any) error { return config.Pairs(dst, o) }
