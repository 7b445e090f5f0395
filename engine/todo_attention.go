package engine

// roomFor is how many rows a RowCache makes room for when there are n. It goes away with the last RowCache that is
// not in pages: delete this file then.
func roomFor(n int) int {
	const step = 16
	return (n + n/8 + step) / step * step
}
