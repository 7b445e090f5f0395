package bench

import "time"

// shortest is how long a repetition takes at least: the clock of processes ticks 64 times a second.
const shortest = 200 * time.Millisecond
