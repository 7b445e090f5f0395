package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/generate/constrain"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// constraintFlags holds the flags that limit a continuation or a reply.
type constraintFlags struct {
	schema, regex, grammar string
	choices                []string
}

func (f *constraintFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.schema, "json-schema", "",
		"write JSON of the JSON schema in this file, and end there")
	cmd.Flags().StringVar(&f.regex, "regex", "", "write a text that this regular expression (RE2) matches as a whole")
	cmd.Flags().StringVar(&f.grammar, "grammar", "",
		"write a text of the grammar in this file, in llama.cpp's format GBNF or that of Lark, and end there")
	cmd.Flags().StringSliceVar(&f.choices, "choices", nil, "write one of these texts, with commas between")
	cmd.MarkFlagsMutuallyExclusive("json-schema", "regex", "grammar", "choices")
}

// apply sets the constraint of o according to the flags. ends are the tokens of tok that end a text.
func (f *constraintFlags) apply(tok tokenizer.Tokenizer, ends []int32, o *hippo.Options) error {
	const most = 1 << 20 // bytes of a file
	var g *constrain.Grammar
	var err error
	name := ""
	switch {
	case f.schema != "" || f.grammar != "":
		name = f.schema + f.grammar // one of them is empty
		data, err := disk.ReadText(name, most)
		if err != nil {
			return err
		}
		if f.schema != "" {
			g, err = constrain.Schema(data)
		} else {
			g, err = constrain.Compile(constrain.Rules(string(data)))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	case f.regex != "":
		name = "regex"
		g, err = constrain.Regexp(f.regex)
	case len(f.choices) > 0:
		name = "choices"
		g, err = constrain.Choices(f.choices)
	default:
		return nil
	}
	if err == nil && o.IgnoreEnd {
		err = errors.New("found --ignore_end beside it, want one of the two")
	}
	if err == nil {
		o.Constraint, err = constrain.New(g, tok, constrain.NewVocabulary(tok, ends))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	go o.Constraint.Ahead() // while the prompt is read
	return nil
}
