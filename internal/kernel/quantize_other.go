//go:build !amd64

package kernel

// directLargest would be largest in assembly, of which there is none for this architecture.
func directLargest([]float32) (uint32, int) { return 0, 0 }

// directRoundInto would be roundInto in assembly, likewise.
func directRoundInto([]int8, []float32, float32) (int32, int) { return 0, 0 }
