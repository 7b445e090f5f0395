package bench

import "time"

// shortest is the minimum time of a repetition. The CPU clock of a process has a resolution of 1/64 s.
const shortest = 200 * time.Millisecond
