//go:build !amd64

package kernel

// directRowDots reports that this architecture has no assembly for RowDots.
func directRowDots(int, int, []float32, int, []float32, []float32) bool { return false }

// directRowSums does the same for RowSums.
func directRowSums(int, int, []float32, int, []float32, []float32, bool) bool { return false }

// directDots does the same for Dots.
func (r *RoundedRows) directDots(int, int, []float32, []float32) bool { return false }

// directSums does the same for Sums.
func (r *RoundedRows) directSums(int, int, []float32, []float32, bool) bool { return false }

// directWiden does the same for Get.
func (r *RoundedRows) directWiden(int, int, []float32) bool { return false }
