package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/engine"
)

// BigBirdInfo describes the block-sparse attention of "Big Bird: Transformers for Longer Sequences" (arXiv:2007.14062,
// §2): a query sees the blocks around its own, the first blocks of the sequence and some random ones. In language
// models it is causal: see engine.Blocks.
var BigBirdInfo = Info{
	Name:   "bigbird",
	Paper:  "Big Bird: Transformers for Longer Sequences, arXiv:2007.14062",
	Time:   "l·block·(global + window + random)·d + l·d²",
	State:  "2·l·d",
	Causal: true, Bidirectional: true, Builder: builder(bigBirdOptionsOf, newBigBird),
	Tiny: Tiny{Options: "rotary_emb_dim=16,block=16", DModel: 128, NLayer: 4, DInner: 576},
}

type bigBirdOptions struct {
	attentionOptions
	Block         int    `json:"block" help:"positions of a block"`
	Window        int    `json:"window" help:"blocks that are seen on each side of a position's own"`
	Global        int    `json:"global" help:"blocks at the front (bidirectional: and end) that see all and all see"`
	Random        int    `json:"random" help:"blocks drawn at random for each block and head"`
	Seed          uint64 `json:"seed" help:"of the draw"`
	Bidirectional bool   `json:"bidirectional" help:"look ahead; for encoders"`
}

func bigBirdOptionsOf(c Config) bigBirdOptions {
	return bigBirdOptions{attentionOptions: attentionOptionsOf(c), Block: 64, Window: 1, Global: 1, Random: 3}
}

// newBigBird returns a block-sparse attention mixer whose parameters have no values yet.
func newBigBird(cfg Config, o bigBirdOptions) (Mixer, error) {
	m, err := newAttention(cfg, o.attentionOptions, plainHeads())
	if err != nil {
		return nil, err
	}
	if o.Block < 1 {
		return nil, fmt.Errorf("block: found %d, want at least 1", o.Block)
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"window", o.Window}, {"global", o.Global}, {"random", o.Random}} {
		if f.value < 0 || f.value > maxBlocks {
			return nil, fmt.Errorf("%s: found %d, want 0 to %d", f.name, f.value, maxBlocks)
		}
	}
	if err := checkAhead(o.Bidirectional, o.ALiBi); err != nil {
		return nil, err
	}
	m.opt.Blocks = &engine.Blocks{
		Size: o.Block, Window: o.Window, Global: o.Global, Random: o.Random, Seed: o.Seed, Ahead: o.Bidirectional,
	}
	return m, nil
}

// maxBlocks bounds the cost of a wrong configuration.
const maxBlocks = 1 << 10
