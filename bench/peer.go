package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"time"
)

// runPeer runs a command line in the system's shell and reads the rows that it prints, one JSON object per line. If
// several rows have the same identity, as in a report of progress, the last one counts.
func runPeer(ctx context.Context, command string, stderr io.Writer) ([]Row, error) {
	shell := []string{"sh", "-c", command}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd", "/C", command}
	}
	cmd := exec.CommandContext(ctx, shell[0], shell[1:]...)
	cmd.Stderr, cmd.WaitDelay = stderr, time.Second
	endTogether(cmd)
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("peer: %s: %w", command, err)
	}
	var rows []Row
	at := map[string]int{}
	for i, line := range bytes.Split(out, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		row, err := ParseRow(line)
		if err != nil {
			return nil, fmt.Errorf("peer: %s: line %d: %w", command, i+1, err)
		}
		id := identity(row).String()
		if before, ok := at[id]; ok {
			rows[before] = row
			continue
		}
		at[id], rows = len(rows), append(rows, row)
	}
	return rows, nil
}
