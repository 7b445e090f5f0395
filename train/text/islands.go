package text

import (
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/train"
)

// islandBits maps a precision to the number of bits of a number that islands send.
var islandBits = map[string]int{"float32": 32, "bf16": 16, "int8": 8}

// plan returns the settings of the islands.
func (t *Loop) plan() train.Islands {
	if t.Islands == 0 {
		return train.Islands{}
	}
	return train.Islands{N: t.Islands, Every: t.Every, Bits: islandBits[t.IslandPrecision], LR: t.OuterLR,
		Momentum: t.OuterMomentum}
}

// Parts returns the most machines that can make updates together, and the name of the setting that limits them.
func (t *Loop) Parts() (n int, setting string) {
	if t.Islands > 0 {
		return t.Islands, "train.islands"
	}
	return t.Shards, "train.shards"
}

// islandBytes returns the memory of islands on one machine, given the number of trained parameters: their states before
// and after a round, their differences, the weights, momentum and step of the meeting, and the rows of a round. A
// leader keeps rows and weights of all rounds since a checkpoint.
func (t *Loop) islandBytes(trained int, leads bool) int {
	p := t.plan()
	if p.N == 0 {
		return 0
	}
	differences := train.SumsOf(p.N)
	if p.Bits < 32 {
		differences = p.N
	}
	bytes := 2*p.N*p.StateBytes(trained) + 4*trained*(differences+5) + t.rowBytes()
	if leads {
		bytes += (p.Rounds(t.SaveEvery) - 1) * (4*trained + t.rowBytes())
	}
	return bytes
}

// rowBytes returns the memory of the rows of a round: the ids of inputs and targets.
func (t *Loop) rowBytes() int { return 8 * t.tokensPerStep() * min(t.Every, t.Steps) }

// checkIslands adds the problems of the settings of islands.
func (t *Loop) checkIslands(p *config.Problems) {
	p.AtLeast("train.islands", t.Islands, 0)
	if t.Islands <= 0 {
		return
	}
	if t.Shards%t.Islands != 0 {
		p.Addf("train.islands", "found %d with train.shards %d, want a number that divides it: each island "+
			"computes as many shards of an update", t.Islands, t.Shards)
	}
	p.AtLeast("train.every", t.Every, 1)
	p.OneOf("train.island_precision", t.IslandPrecision, []string{"float32", "bf16", "int8"})
	if !(t.OuterLR > 0 && t.OuterLR <= 10) {
		p.Addf("train.outer_lr", "found %g, want a number above 0, at most 10", t.OuterLR)
	}
	if !(t.OuterMomentum >= 0 && t.OuterMomentum <= 0.999999) {
		p.Addf("train.outer_momentum", "found %g, want a number from 0 to 0.999999", t.OuterMomentum)
	}
	if n := t.tokensPerStep(); n > 0 && min(t.Every, t.Steps) > maxRound/n {
		p.Addf("train.every", "found %d of %d tokens, want at most %d tokens between two meetings", t.Every, n,
			maxRound)
	}
	if t.Moments == momentsSplit {
		p.Addf("train.moments", "found %s with train.islands %d, want %s: each island has its own", t.Moments,
			t.Islands, momentsAll)
	}
	if t.CarryState {
		p.Addf("train.carry_state", "found true with train.islands %d, want false", t.Islands)
	}
	if t.Time > 0 {
		p.Addf("train.time", "found %v with train.islands %d, want train.steps: a round of %d updates has no clock",
			t.Time, t.Islands, t.Every)
	}
}

// maxRound is the most tokens of a round, which are held in memory.
const maxRound = 1 << 27
