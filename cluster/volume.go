package cluster

// Volume predicts a step of members that are alike: how many shards one of them computes at most, and how many bytes
// one of them sends or receives at most for each byte of the gradient. Where runs are whole subtrees, that is a ring's
// 2(n-1)/n: the parts of the others' ranges once, and the sum of the own range to all. A run of several nodes sends
// those parts for each. Numbers of a node have so many bits (see Lasting).
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
