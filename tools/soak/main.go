// Command soak treats hippo serve badly for a while. It checks that replies are not mixed up, that stored data is not
// lost, and that memory and goroutines do not grow. Clients read replies, disconnect in the middle of them, send
// rubbish and stall. If the server has a store, they also store responses and change sessions. Now and then the server
// is killed and started again.
//
//	go build -o hippo ./cmd/hippo && go run ./tools/soak --for 30m ./hippo serve runs/tiny --store state
//
// It prints a summary as JSON, and ends with status 1 if it found a problem.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	s := &soak{}
	flag.DurationVar(&s.time, "for", 30*time.Minute, "how long")
	flag.DurationVar(&s.kill, "kill", time.Minute, "time between kills of the server; 0: none")
	flag.IntVar(&s.clients, "clients", 64, "clients at a time")
	flag.IntVar(&s.tokens, "tokens", 32, "tokens of a reply")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: soak [flags] HIPPO serve MODEL [flags of hippo serve]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if s.command = flag.Args(); len(s.command) < 3 {
		flag.Usage()
		os.Exit(2)
	}
	err := s.run(context.Background())
	s.Problems = append(s.Problems, s.growth()...)
	if err != nil {
		s.Problems = append(s.Problems, err.Error())
	}
	summary := json.NewEncoder(os.Stdout)
	summary.SetIndent("", "  ")
	if err := summary.Encode(&s.summary); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	if len(s.Problems) > 0 {
		os.Exit(1)
	}
}
