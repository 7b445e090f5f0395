package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/chat/terminal"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
)

func newRun() *cobra.Command {
	opt := generate.DefaultOptions()
	var r talk
	cmd := &cobra.Command{
		Use:   "run DIR [PROMPT]",
		Short: "Talk with a model",
		Long: `Talk with the model in DIR, a model's folder, a training run's or a .gguf file. With PROMPT, or with
text from a pipe, the model replies once, and only the reply is on standard output. On a terminal it is a conversation:
/help lists the commands. Ctrl-C stops a reply; a second Ctrl-C, or Ctrl-D, ends the program.

Reasoning, which a chat template marks by <think>, is shown dimmed in a conversation. Else it is on standard error.

Messages are put into the form that the model was trained with: the chat_template of its tokenizer_config.json, its
chat_template.jinja, that in the .gguf file, or --template. A model without one continues plain text, as hippo generate
does. generation_config.json sets the defaults of --temperature, --top_k, --top_p, --min_p, --repetition_penalty and
--max_tokens, and the tokens that end a reply.

--tools names a JSON file with functions that the model may call, as in the field tools of the server's chats. A call is
shown as NAME ARGUMENTS, and you type its result; or --tool-command runs a program for it, with the name as its argument
and the arguments on standard input, whose output is the result. For a single reply without one, calls are the output,
each an object on a line.

With --json-schema, --regex, --grammar or --choices, all that the model writes is such a text, reasoning included.

On a terminal, control characters of a reply are shown as \x1b, so that a text cannot change its settings.`,
		Example: `  hippo run models/granite
  hippo run models/granite "Why is the sky blue?" --temperature 0
  cat letter.txt | hippo run models/granite --system "Answer politely."`,
		Args:              modelArgs(1, 2),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	settled := samplingFlags(cmd, &opt, "the same replies")
	cmd.Flags().StringVar(&r.system, "system", "", "message before all others that tells the model how to reply")
	cmd.Flags().StringVar(&r.template, "template", "", "file of a chat template, in place of the model's own")
	precisionFlag(cmd, &r.precision, hippo.Stored)
	statesFlag(cmd, &r.states)
	cmd.Flags().StringVar(&r.tools, "tools", "", "JSON file with functions that the model may call")
	cmd.Flags().StringVar(&r.command, "tool-command", "", "program that runs a call of --tools")
	completeFlag(cmd, "tools", completeFiles("json"))
	r.constraint.register(cmd)
	adapterFlag(cmd, &r.adapter)
	deviceFlag(cmd, &r.device)
	drafts := draftFlag(cmd)
	completeFlag(cmd, "template", completeFiles("jinja"))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		// Flags are checked before a model is loaded. They override the settings in its files.
		if err := settled(); err != nil {
			return err
		}
		on, err := onDevice(r.device) // before reading standard input, as hippo-gpu may have to run and read it
		if err != nil {
			return err
		}
		talks := len(args) == 1 && isTerminal(os.Stdin) && isTerminal(os.Stdout)
		prompt := ""
		if !talks {
			if prompt, err = promptOf(cmd.Context(), args); err != nil {
				return err
			}
		}
		m, err := loadModel(args[0], r.adapter, hippo.Precision(r.precision), hippo.StatePrecision(r.states), on)
		if err != nil {
			return err
		}
		if opt.Draft, err = drafts(m); err != nil {
			return err
		}
		settings, err := r.settings(m)
		if err != nil {
			return err
		}
		settings.Defaults.Apply(&opt)
		if err := settled(); err != nil {
			return err
		}
		if err := r.constraint.apply(m.Tokenizer(), settings.EndIDs, &opt); err != nil {
			return err
		}
		c := chat.New(m.Net(), m.Tokenizer(), settings)
		c.SetSystem(r.system)
		if c.Tools, err = r.toolsOf(settings, m.Tokenizer()); err != nil {
			return err
		}
		if talks {
			return terminal.Converse(cmd.Context(), os.Stdin, os.Stdout, c, opt, settings.Template != nil)
		}
		return replyOnce(cmd.Context(), c, strings.TrimSuffix(prompt, "\n"), opt)
	}
	return cmd
}

// talk holds the flags of hippo run that do not concern sampling.
type talk struct {
	system, template, precision, states, adapter, device, tools, command string
	constraint                                                           constraintFlags
}

// settings returns the model's chat settings, with the template of --template if it is given.
func (r *talk) settings(m *hippo.Model) (*chat.Settings, error) {
	settings, err := chat.Load(m.Dir(), m.Tokenizer())
	if err != nil || r.template == "" {
		return settings, err
	}
	source, err := disk.ReadText(r.template, disk.MaxText)
	if err == nil {
		err = settings.SetTemplate(string(source), m.Tokenizer())
	}
	if err != nil {
		return nil, fmt.Errorf("template %s: %w", r.template, err)
	}
	return settings, nil
}

// replyOnce writes a reply to standard output.
func replyOnce(ctx context.Context, c *chat.Chat, prompt string, opt generate.Options) error {
	terminal := isTerminal(os.Stdout)
	out := bufio.NewWriter(os.Stdout)
	thought := false
	c.Thought = func(text string) error {
		thought = true
		if isTerminal(os.Stderr) {
			text = brief.Dim(brief.Printable(text))
		}
		_, err := os.Stderr.WriteString(text)
		return err
	}
	endThought := func() {
		if thought {
			os.Stderr.WriteString("\n")
		}
		thought = false
	}
	listed := false
	if c.Tools != nil {
		c.Tools.Told = func(call chat.Call) error {
			endThought()
			if c.Tools.Do != nil {
				fmt.Fprintln(os.Stderr, brief.Printable(call.Name+" "+call.Arguments))
				return nil
			}
			listed = true
			return json.NewEncoder(out).Encode(map[string]any{"name": call.Name,
				"arguments": json.RawMessage(call.Arguments)})
		}
	}
	err := c.Reply(ctx, prompt, opt, func(text string) error {
		endThought()
		if terminal {
			text = brief.Printable(text)
		}
		out.WriteString(text)
		return out.Flush()
	})
	endThought()
	if !listed && (err == nil || errors.Is(err, context.Canceled)) {
		out.WriteByte('\n')
	}
	return errors.Join(err, out.Flush())
}
