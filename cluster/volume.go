package cluster

// Volume predicts the cost of a step of equal members. most is the largest number of shards that one member computes.
// traffic is the largest number of bytes that one member sends or receives, for each byte of the gradient. If runs are
// whole subtrees, traffic is that of a ring, 2(n-1)/n: the parts of the others' ranges once, and the sum of the own
// range to all. A member whose run has several nodes sends those parts for each node. bits is the number of bits of a
// node's numbers (see Lasting).
func Volume(shards, members, bits int) (most int, traffic float64) {
	speeds := make([]float64, members)
	for i := range speeds {
		speeds[i] = 1
	}
	var holders []ID
	for i, run := range share(shards, speeds) {
		most = max(most, run)
		for range run {
			holders = append(holders, ID(i))
		}
	}
	nodes, by := held(holders, bits < float32Bits)
	own := make([]int, members)
	for _, id := range by {
		own[id]++
	}
	n := float64(members)
	part := 1.
	if bits < float32Bits {
		part = float64(packed(packBlock, bits)) / (4 * packBlock)
	}
	for _, k := range own {
		sent, received := part*float64(k)*(n-1)/n, part*float64(len(nodes)-k)/n
		traffic = max(traffic, max(sent, received)+(n-1)/n)
	}
	return most, traffic
}
