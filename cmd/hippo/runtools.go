package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// toolsOf returns the functions of --tools, or nil if the flag is not given.
func (r *talk) toolsOf(s *chat.Settings, tok tokenizer.Tokenizer) (*chat.Tools, error) {
	if r.tools == "" {
		if r.command != "" {
			return nil, errors.New("--tool-command: found it without --tools, want both")
		}
		return nil, nil
	}
	list, err := disk.ReadText(r.tools, disk.MaxText)
	if err != nil {
		return nil, err
	}
	tools, err := reply.ChatTools(list, s, tok)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.tools, err)
	}
	if r.command != "" {
		tools.Do = r.call
	}
	return tools, nil
}

// call runs the program of --tool-command for a function call and returns its output.
func (r *talk) call(ctx context.Context, c chat.Call) (string, error) {
	cmd := exec.CommandContext(ctx, r.command, c.Name)
	var out, problems bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.Arguments), &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("--tool-command %s: %w: %s", r.command, err, strings.TrimSpace(problems.String()))
	}
	return strings.TrimRight(out.String(), "\n"), nil
}
