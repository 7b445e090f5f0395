//go:build unix

package bench

import "time"

// shortest is how long a repetition takes at least, so that the ticks of the clocks, of a microsecond, weigh nothing.
const shortest = 5 * time.Millisecond
