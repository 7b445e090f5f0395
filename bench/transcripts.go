package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// transcripts describes realistic conversations of coding agents: a system prompt that ends with the date, tools, calls
// that the server writes under a grammar, results of some lines of code, replies. Occasionally a user edits an earlier
// message and continues from there, two requests branch from one conversation and run concurrently, and the date
// changes.
type transcripts struct {
	agents, requests int           // number of agents, and number of requests of each
	part, parts      int           // the part of the agents that is measured: part 1, 2 ... parts
	limit            time.Duration // for all requests: half of it to send them, and half to send them again; 0: none
}

// maxAgents is the maximum number of agents, which all run concurrently.
const maxAgents = 1000

// numbers returns the agents of the part.
func (of transcripts) numbers() (all []int) {
	for i := of.part - 1; i < of.agents; i += of.parts {
		all = append(all, i)
	}
	return all
}

// isSetting reports whether an argument is one for setting.
func isSetting(text string) bool {
	name, _, found := strings.Cut(text, "=")
	return found && slices.Contains([]string{"agents", "part", "limit"}, name)
}

// setting parses agents=N, part=I/N or limit=DURATION.
func (of *transcripts) setting(text string) (err error) {
	name, value, _ := strings.Cut(text, "=")
	if name == "limit" {
		if of.limit, err = time.ParseDuration(value); err != nil || of.limit <= 0 {
			return fmt.Errorf("found %q, want a time such as limit=5m", text)
		}
		return nil
	}
	if name == "agents" {
		if of.agents, err = strconv.Atoi(value); err != nil || of.agents < of.parts || of.agents > maxAgents {
			return fmt.Errorf("found %q, want a number from %d to %d, such as agents=32", text, of.parts, maxAgents)
		}
		return nil
	}
	if _, err := fmt.Sscanf(value, "%d/%d", &of.part, &of.parts); err != nil || of.part < 1 || of.part > of.parts ||
		of.parts > of.agents || fmt.Sprintf("%d/%d", of.part, of.parts) != value {
		return fmt.Errorf("found %q, want part=1/N to part=N/N of %d agents", text, of.agents)
	}
	return nil
}

// late returns a function that reports whether half of the time has passed.
func (of transcripts) late() func() bool {
	begun := time.Now()
	return func() bool { return of.limit > 0 && time.Since(begun) > of.limit/2 }
}

// inTurn returns the first element of each list, then the second of each, and so on.
func inTurn[T any](lists [][]T) (all []T) {
	for i, more := 0, true; more; i++ {
		more = false
		for _, list := range lists {
			if i < len(list) {
				all, more = append(all, list[i]), true
			}
		}
	}
	return all
}
