package task

import "math/rand/v2"

// drawn is a Split of examples that are generated on demand, so that they take no memory. Each example i has its own
// stream of random numbers, which depends on the seed, the split and i.
type drawn struct {
	n            int
	seed, stream uint64
	draw         func(rng *rand.Rand, i int, ex *Example)
}

// Len returns the number of examples.
func (d *drawn) Len() int { return d.n }

// Example generates example i.
func (d *drawn) Example(i int, ex *Example) {
	ex.Reset()
	rng := rand.New(rand.NewPCG(scramble(d.seed^scramble(d.stream)), scramble(uint64(i))))
	d.draw(rng, i, ex)
}

// scramble is the output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). It gives neighboring numbers
// unrelated seeds, which PCG needs.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// distinctInts appends n different numbers from [low, high) to dst, in random order.
func distinctInts(rng *rand.Rand, dst []int32, n int, low, high int32) []int32 {
	first := len(dst)
draw:
	for len(dst) < first+n {
		x := low + rng.Int32N(high-low)
		for _, y := range dst[first:] {
			if x == y {
				continue draw
			}
		}
		dst = append(dst, x)
	}
	return dst
}
