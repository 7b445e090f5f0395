package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
)

// conversation is what hippo run does on a terminal.
type conversation struct {
	*console
	chats map[string]*chat.Chat // by name; the first is mainChat
	name  string                // of the one that goes on
	opt   generate.Options
	ended bool
}

const mainChat = "main"

const conversationHelp = `/save FILE    write the messages to a file
/load FILE    go on from the messages of a file; the model reads them again
/fork NAME    go on in a copy; with the name of an earlier one (the first is "main"), go back to that
/undo         take back your last message and its reply
/system TEXT  how to reply, from now on; without TEXT, nothing
/stats        speeds, and the size of the state
/bye          end, as Ctrl-D does
A message may have several lines: between """ and """, or with a backslash at the end of each but the last.
`

// converse talks on the terminal until the user has enough.
func converse(ctx context.Context, c *chat.Chat, opt generate.Options, hasTemplate bool) error {
	terminal, err := openConsole(ctx)
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	defer terminal.close()
	t := &conversation{console: terminal, chats: map[string]*chat.Chat{mainChat: c}, name: mainChat, opt: opt}
	if !hasTemplate {
		t.write("The model has no chat template: it continues your text.\n")
	}
	t.write("/help lists what can be typed.\n")
	return t.loop()
}

func (t *conversation) chat() *chat.Chat { return t.chats[t.name] }

// loop reads messages and commands. After a Ctrl-C another one ends it.
func (t *conversation) loop() error {
	stopped := false
	for !t.ended {
		prompt := ">>> "
		if t.name != mainChat {
			prompt = printable(t.name) + prompt
		}
		text, err := t.message(prompt)
		switch {
		case errors.Is(err, errStop) && !stopped:
			stopped = true
			t.write("(Ctrl-C again, or Ctrl-D, ends)\n")
			continue
		case errors.Is(err, errStop):
			return nil
		case errors.Is(err, io.EOF):
			return t.write("\n")
		case err != nil:
			return err
		}
		if stopped, err = t.answer(text); err != nil {
			return err
		}
	}
	return nil
}

// answer does what was typed. It reports whether Ctrl-C has stopped it.
func (t *conversation) answer(text string) (stopped bool, err error) {
	if strings.TrimSpace(text) == "" {
		return false, nil
	}
	if strings.HasPrefix(text, "/") {
		if err := t.command(text); err != nil {
			return false, t.write(printable(brief.Error(err).Error()) + "\n")
		}
		return false, nil
	}
	shown := false
	t.chat().Progress = func(read, total int) {
		switch {
		case read < total:
			shown = true
			t.write(fmt.Sprintf("\rreading %d/%d", read, total))
		case shown:
			t.write("\r\x1b[K") // the reply follows
		}
	}
	stopped, err = t.during(func(ctx context.Context) error {
		return t.chat().Reply(ctx, text, t.opt, func(piece string) error { return t.write(printable(piece)) })
	})
	t.opt.Seed++ // for another reply to the same message
	switch {
	case t.ctx.Err() != nil:
		return false, err
	case stopped:
		return true, t.write("\n(stopped)\n")
	case err != nil:
		return false, t.write("\n" + printable(brief.Error(err).Error()) + "\n")
	}
	return false, t.write("\n")
}

// commandNames are what may follow a slash.
var commandNames = []string{"help", "save", "load", "fork", "undo", "system", "stats", "bye"}

// command does what stands behind a slash.
func (t *conversation) command(text string) error {
	name, arg, _ := strings.Cut(strings.TrimPrefix(text, "/"), " ")
	arg = strings.TrimSpace(arg)
	if slices.Contains([]string{"save", "load", "fork"}, name) && arg == "" {
		return fmt.Errorf("/%s: found nothing behind it, want a name", name)
	}
	switch name {
	case "help":
		return t.write(conversationHelp)
	case "save":
		if err := t.chat().Save(arg); err != nil {
			return err
		}
		return t.write(fmt.Sprintf("wrote %d messages to %s\n", len(t.chat().Messages()), printable(arg)))
	case "load":
		if err := t.chat().Load(arg); err != nil {
			return err
		}
		return t.write(fmt.Sprintf("read %d messages\n", len(t.chat().Messages())))
	case "fork":
		if t.chats[arg] == nil {
			t.chats[arg] = t.chat().Fork()
		}
		t.name = arg
		return nil
	case "undo":
		if !t.chat().Undo() {
			return errors.New("/undo: there is no message to take back")
		}
		return nil
	case "system":
		t.chat().SetSystem(arg)
		return nil
	case "stats":
		return t.stats()
	case "bye":
		t.ended = true
		return nil
	}
	return fmt.Errorf("found the command /%s, want one of /%s%s", name, strings.Join(commandNames, ", /"),
		config.DidYouMean(name, commandNames))
}

func (t *conversation) stats() error {
	s := t.chat().Stats()
	return t.write(fmt.Sprintf("%d messages, %d tokens; "+
		"read %d tokens, %.0f tok/s; wrote %d tokens, %.1f tok/s; state %s\n",
		len(t.chat().Messages()), t.chat().Position(), s.PrefillTokens, rate(s.PrefillTokens, s.PrefillSeconds),
		s.DecodeTokens, rate(s.DecodeTokens, s.DecodeSeconds), status.Bytes(uint64(s.StateBytes))))
}
