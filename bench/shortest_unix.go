//go:build unix

package bench

import "time"

// shortest is the minimum time of a repetition. The clock's resolution of a microsecond is negligible compared to it.
const shortest = 5 * time.Millisecond
