//go:build unix

package bench

import "time"

// shortest is the least time of a repetition. The clock's resolution of a microsecond is negligible beside it.
const shortest = 5 * time.Millisecond
