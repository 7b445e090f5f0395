//go:build !amd64

package kernel

// directRowDots would be RowDots in assembly, of which there is none for this architecture.
func directRowDots(int, int, []float32, int, []float32, []float32) bool { return false }

// directRowSums would be RowSums in assembly, likewise.
func directRowSums(int, int, []float32, int, []float32, []float32) bool { return false }

// directDots would be Dots in assembly, likewise.
func (r *RoundedRows) directDots(int, int, []float32, []float32) bool { return false }

// directSums would be Sums in assembly, likewise.
func (r *RoundedRows) directSums(int, int, []float32, []float32, bool) bool { return false }

// directWiden would be Get in assembly, likewise.
func (r *RoundedRows) directWiden(int, int, []float32) bool { return false }
