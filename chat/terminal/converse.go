package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
)

// conversation is a terminal and its chats.
type conversation struct {
	*console
	chats map[string]*chat.Chat // by name; the first is mainChat
	name  string                // of the current one
	opt   generate.Options
	ended bool
}

const mainChat = "main"

const conversationHelp = `/save FILE    save the messages to a file
/load FILE    continue from the messages of a file; the model reads them again
/fork NAME    continue in a copy, or go back to an earlier one of that name (the first is "main")
/undo         remove your last message and its reply
/retry        reply to your last message again, with other random numbers
/set NAME X   set a sampling setting, such as temperature 0.5; without them, print all
/system TEXT  tell the model how to reply from now on; without TEXT, nothing
/stats        print speeds and the size of the state
/bye          end, as Ctrl-D does
A message may have several lines: between """ and """, or with a backslash at the end of each but the last.
`

// Converse holds a conversation on the terminal of in and out until the user ends it.
func Converse(ctx context.Context, in, out *os.File, c *chat.Chat, opt generate.Options, hasTemplate bool) error {
	terminal, err := openConsole(ctx, in, out)
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
			prompt = brief.Printable(t.name) + prompt
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

// answer runs a command or replies to a message. It reports whether Ctrl-C stopped it.
func (t *conversation) answer(text string) (stopped bool, err error) {
	if strings.TrimSpace(text) == "" {
		return false, nil
	}
	if strings.TrimSpace(text) == "/retry" {
		if text = t.lastMessage(); text == "" {
			return false, t.write("/retry: there is no message to reply to\n")
		}
		t.chat().Undo()
	} else if strings.HasPrefix(text, "/") {
		if err := t.command(text); err != nil {
			return false, t.write(brief.Printable(brief.Error(err).Error()) + "\n")
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
			t.write("\r\x1b[K") // erase the line before the reply
		}
	}
	thought := false
	t.chat().Thought = func(piece string) error {
		thought = true
		return t.write(brief.Dim(brief.Printable(piece)))
	}
	if tools := t.chat().Tools; tools != nil {
		tools.Told = func(c chat.Call) error {
			return t.write("\n" + brief.Printable(c.Name+" "+c.Arguments) + "\n")
		}
		if tools.Do == nil {
			tools.Do = t.ask
		}
	}
	stopped, err = t.during(func(ctx context.Context) error {
		return t.chat().Reply(ctx, text, t.opt, func(piece string) error {
			if thought {
				piece = "\n" + piece
			}
			thought = false
			return t.write(brief.Printable(piece))
		})
	})
	t.opt.Seed++ // so that the same message gets another reply
	switch {
	case t.ctx.Err() != nil:
		return false, err
	case stopped:
		return true, t.write("\n(stopped)\n")
	case err != nil:
		return false, t.write("\n" + brief.Printable(brief.Error(err).Error()) + "\n")
	}
	return false, t.write("\n")
}

// ask has the user type the result of a tool call. Ctrl-C stops the reply.
func (t *conversation) ask(context.Context, chat.Call) (string, error) {
	t.mu.Lock()
	cancel := t.cancel
	t.cancel = nil
	t.mu.Unlock()
	text, err := t.message("result> ")
	t.mu.Lock()
	t.cancel = cancel
	t.mu.Unlock()
	return text, err
}

// lastMessage returns the user's last message, or "" if there is none.
func (t *conversation) lastMessage() string {
	for _, m := range slices.Backward(t.chat().Messages()) {
		if m.Role() == "user" {
			return m.Content()
		}
	}
	return ""
}

// set changes a sampling setting or, without an argument, prints all of them.
func (t *conversation) set(arg string) error {
	name, value, _ := strings.Cut(arg, " ")
	if name != "" {
		opt := t.opt
		if err := config.Pairs(&opt, map[string]string{name: strings.TrimSpace(value)}); err != nil {
			return fmt.Errorf("/set: %w", err)
		}
		t.opt = opt
		return nil
	}
	for _, d := range config.Describe(&t.opt) {
		if err := t.write(fmt.Sprintf("%-20s %-6s %s\n", d.Key, d.Value, d.Help)); err != nil {
			return err
		}
	}
	return nil
}

// commandNames lists the words that can follow a slash.
var commandNames = []string{"help", "save", "load", "fork", "undo", "retry", "set", "system", "stats", "bye"}

// command runs the command after a slash.
func (t *conversation) command(text string) error {
	name, arg, _ := strings.Cut(strings.TrimPrefix(text, "/"), " ")
	arg = strings.TrimSpace(arg)
	if slices.Contains([]string{"save", "load", "fork"}, name) && arg == "" {
		return fmt.Errorf("/%s: found nothing after it, want a name", name)
	}
	switch name {
	case "help":
		return t.write(conversationHelp)
	case "save":
		if err := t.chat().Save(arg); err != nil {
			return err
		}
		return t.write(fmt.Sprintf("wrote %d messages to %s\n", len(t.chat().Messages()), brief.Printable(arg)))
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
			return errors.New("/undo: there is no message to remove")
		}
		return nil
	case "set":
		return t.set(arg)
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
		len(t.chat().Messages()), t.chat().Position(), s.PrefillTokens, s.PrefillSpeed(), s.DecodeTokens,
		s.DecodeSpeed(), status.Bytes(s.StateBytes)))
}
