package task

// picked is a Split of selected examples of another Split.
type picked struct {
	from  Split
	index []int
}

func (p picked) Len() int                   { return len(p.index) }
func (p picked) Example(i int, ex *Example) { p.from.Example(p.index[i], ex) }

// officialSeed is the seed of the splits in state-spaces/s4.
const officialSeed = 42

// heldOut divides a split at random into n held-out examples and the rest. It draws like torch.utils.data.random_split
// with the generator and the seed of the official pipelines, so that the same examples are held out.
func heldOut(from Split, n int) (rest, held Split) {
	order := torchPermutation(from.Len(), officialSeed)
	return picked{from, order[:from.Len()-n]}, picked{from, order[from.Len()-n:]}
}

// torchPermutation returns torch.randperm(n) with a CPU generator with the given seed, for n below 2³²/20: a
// Fisher-Yates shuffle from the front, whose draws are the remainders of 32-bit words.
func torchPermutation(n int, seed uint32) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	words := newMersenne(seed)
	for i := range n - 1 {
		j := i + int(words.next()%uint32(n-i))
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// mersenne is the Mersenne Twister MT19937 of Matsumoto and Nishimura, 1998, the generator of PyTorch on the CPU.
type mersenne struct {
	state [mersenneSize]uint32
	at    int
}

const (
	mersenneSize  = 624
	mersenneShift = 397
)

func newMersenne(seed uint32) *mersenne {
	m := &mersenne{at: mersenneSize}
	m.state[0] = seed
	for i := 1; i < mersenneSize; i++ {
		before := m.state[i-1]
		m.state[i] = 1812433253*(before^before>>30) + uint32(i)
	}
	return m
}

// twist replaces the whole state by the next one.
func (m *mersenne) twist() {
	for i := range m.state {
		y := m.state[i]&(1<<31) | m.state[(i+1)%mersenneSize]&(1<<31-1)
		next := m.state[(i+mersenneShift)%mersenneSize] ^ y>>1
		if y&1 == 1 {
			next ^= 0x9908b0df
		}
		m.state[i] = next
	}
	m.at = 0
}

// next returns the next word.
func (m *mersenne) next() uint32 {
	if m.at == mersenneSize {
		m.twist()
	}
	y := m.state[m.at]
	m.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}
