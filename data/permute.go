package data

import (
	"math/bits"
	"math/rand/v2"
)

// permutation is a bijection of 0…n−1 that needs no table: a balanced Feistel network over the smallest 4^k ≥ n, with
// cycle walking, that is, applied again until the value is below n (Black and Rogaway, "Ciphers with Arbitrary Finite
// Domains", CT-RSA 2002). It is for shuffling, not for encryption.
type permutation struct {
	n    uint64
	half int // bits in each half of the network
	keys [8]uint64
}

// newPermutation returns a random permutation of 0…n−1, n ≥ 1.
func newPermutation(n uint64, rng *rand.Rand) permutation {
	p := permutation{n: n, half: (bits.Len64(n-1) + 1) / 2}
	for i := range p.keys {
		p.keys[i] = rng.Uint64()
	}
	return p
}

// at returns the image of i < n. It walks fewer than 4 steps on average, as 4^k < 4n.
func (p *permutation) at(i uint64) uint64 {
	for {
		if i = p.network(i); i < p.n {
			return i
		}
	}
}

// network applies the Feistel network: (l, r) → (r, l ⊕ F(r)) in each round, which is a bijection for any F.
func (p *permutation) network(x uint64) uint64 {
	mask := uint64(1)<<p.half - 1
	l, r := x>>p.half, x&mask
	for _, key := range p.keys {
		l, r = r, l^(mix(r^key)&mask)
	}
	return l<<p.half | r
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every bit of x affects every bit of the
// result.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
