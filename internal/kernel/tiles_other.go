//go:build !amd64

package kernel

// There is no assembly for tiles on this architecture.

func toTileBlocks(_, _ []float32, _, _ int, _ bool) int { return 0 }

func fromTileBlocks(_, _ []float32, _, _ int) int { return 0 }
