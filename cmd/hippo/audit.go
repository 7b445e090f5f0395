package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/receipt"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// audit holds the flags of hippo audit.
type audit struct {
	model, prompt, state string
	anyway               bool
	trust                trustFlag
}

// audited is the result of hippo audit for a receipt.
type audited struct {
	Equal      bool                `json:"equal"`
	Tokens     int                 `json:"tokens"` // of the reply
	Model      string              `json:"model"`
	Precision  string              `json:"precision"`
	CPU        string              `json:"cpu"`
	Signer     string              `json:"signer"`
	Drawn      bool                `json:"drawn"` // whether the tokens were drawn again, too
	Prompt     int                 `json:"prompt_tokens"`
	From       int                 `json:"from"`            // first token of the prompt that was computed
	State      string              `json:"state,omitempty"` // hash of the state before that token
	Difference *receipt.Difference `json:"difference,omitempty"`
}

// errReplyDiffers ends the program with status 1.
var errReplyDiffers = errors.New("the reply is not what its receipt says")

func newAudit() *cobra.Command {
	var a audit
	cmd := &cobra.Command{
		Use:   "audit RECEIPT",
		Short: "Compute a reply of a server again, and compare it with its receipt",
		Long: `Compute a reply of hippo serve again, alone, and compare it with its receipt: a file with the receipt, or
with the whole response. Requests with "receipt": true have one in each reply. Each token must have the logits of the
receipt, to the bit, and be the one that is drawn from them. The first token that differs is named.

With --state FILE the computation begins at a state in the prompt, such as that of a text of a library or one of
/v1/states: what led to the state is taken as given. If the receipt names a state, FILE has to be that one.

A receipt is good for one model, precision and level of the processor (` + "`hippo version`" + `): if something else is
needed, the error names it. HIPPO_CPU sets the level. The exit status is 1 unless the reply is equal.`,
		Example: `  hippo audit reply.json --model runs/tiny
  hippo audit reply.json --model runs/tiny --state library/handbook.session
  HIPPO_CPU=avx2 hippo audit reply.json --model runs/tiny --trust ed25519:KEY`,
		Args: wantArgs(1, 1),
	}
	flags := cmd.Flags()
	flags.StringVar(&a.model, "model", "", "folder or name of the model; empty: the name in the receipt")
	flags.StringVar(&a.prompt, "prompt", "", "file of the prompt, a text or a JSON list of ids, for one with its hash")
	flags.StringVar(&a.state, "state", "", "file of a state in the prompt to compute from; empty: from the start")
	flags.BoolVar(&a.anyway, "anyway", false, "compare even if the model or the level differs")
	a.trust.register(cmd)
	jsonFlag(cmd, objectLine)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := receiptsOf(args[0])
		if err != nil {
			return err
		}
		equal := true
		for _, data := range all {
			x, err := a.audit(cmd.Context(), data)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			equal = equal && x.Equal
			if err := show(cmd, x, func(out io.Writer) error { return x.print(out) }); err != nil {
				return err
			}
		}
		if !equal {
			return fmt.Errorf("%s: %w", args[0], errReplyDiffers)
		}
		return nil
	}
	return cmd
}

// receiptsOf returns the receipts in a file, which holds one receipt or a whole response.
func receiptsOf(path string) (all []json.RawMessage, err error) {
	data, err := disk.ReadText(path, 1<<30)
	if err != nil {
		return nil, err
	}
	var x struct {
		Object  string          `json:"object"`
		Receipt json.RawMessage `json:"receipt"`
		Choices []struct {
			Receipt json.RawMessage `json:"receipt"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(data, &x); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if x.Object == receipt.Object {
		return []json.RawMessage{data}, nil
	}
	if x.Receipt != nil {
		all = append(all, x.Receipt)
	}
	for _, c := range x.Choices {
		if c.Receipt != nil {
			all = append(all, c.Receipt)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf(`%s: found no receipt, want the response to a request with "receipt": true`, path)
	}
	return all, nil
}

// audit computes the reply of a receipt again and compares the two.
func (a *audit) audit(ctx context.Context, data []byte) (x audited, err error) {
	r, by, err := receipt.Read(data)
	if err != nil {
		return x, err
	}
	if len(a.trust) > 0 {
		if err := a.trust.check(by); err != nil {
			return x, err
		}
	}
	m, err := a.load(r)
	if err != nil {
		return x, err
	}
	if a.prompt != "" {
		if err := a.setPrompt(r, m.Tokenizer()); err != nil {
			return x, fmt.Errorf("%s: %w", a.prompt, err)
		}
	}
	x = audited{Tokens: len(r.IDs), Model: r.Model, Precision: r.Identity.Precision, CPU: r.CPU, Signer: by.String(),
		Drawn: !r.Settings.Constrained}
	for _, p := range r.Prompt {
		x.Prompt += p.Tokens
	}
	if a.state == "" {
		x.Difference, err = r.Audit(ctx, m.Net(), m.Tokenizer())
	} else if err = a.fromState(ctx, r, m, &x); err != nil {
		err = fmt.Errorf("%s: %w", a.state, err)
	}
	if errors.Is(err, receipt.ErrPrompt) {
		err = fmt.Errorf("%w: --prompt names a file of the prompt", err)
	}
	x.Equal = x.Difference == nil && err == nil
	return x, err
}

// fromState audits a receipt from the saved state in a.state on and fills in x.
func (a *audit) fromState(ctx context.Context, r *receipt.Receipt, m *hippo.Model, x *audited) error {
	file, err := session.Check(a.state, nil)
	if err == nil && len(a.trust) > 0 {
		err = a.trust.check(file.Signer)
	}
	if err != nil {
		return err
	}
	s, err := m.LoadSession(a.state, nil)
	if err != nil {
		return err
	}
	x.State, x.From = file.Hash, s.Whole().Snapshot().Position
	x.Difference, err = r.AuditFrom(ctx, m.Net(), m.Tokenizer(), s.Whole(), file.Hash)
	return err
}

// load loads the model of a receipt. It tries the stored precision, which servers use, and then that of the receipt.
func (a *audit) load(r *receipt.Receipt) (m *hippo.Model, err error) {
	name := a.model
	if name == "" {
		name = r.Model
	}
	dir, err := modelPath(name)
	if err != nil {
		return nil, err
	}
	for _, precision := range []string{hippo.Stored, r.Identity.Precision} {
		m, err = hippo.Load(dir, hippo.Precision(precision), hippo.StatePrecision(r.Identity.StatePrecision()))
		if err != nil {
			return nil, err
		}
		if err = r.Fits(m.Net(), m.Tokenizer()); err == nil || errors.Is(err, receipt.ErrLevel) {
			break
		}
	}
	if err != nil && !a.anyway {
		return nil, fmt.Errorf("the receipt does not fit %s: %w", dir, err)
	}
	return m, nil
}

// setPrompt sets the prompt of a receipt to that in the file a.prompt: a JSON list of ids or a text.
func (a *audit) setPrompt(r *receipt.Receipt, tok tokenizer.Tokenizer) error {
	text, err := os.ReadFile(a.prompt)
	if err != nil {
		return err
	}
	var ids []int32
	if json.Unmarshal(text, &ids) == nil {
		return r.SetPrompt(ids)
	}
	before, _ := tokenizer.Affixes(tok)
	for _, start := range [][]int32{before, nil} { // the prompt of a chat has no added start
		if ids, err = tok.Encode(start, text); err == nil {
			err = r.SetPrompt(ids)
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// print prints the result.
func (x *audited) print(out io.Writer) error {
	what := fmt.Sprintf("%d tokens of %s, %s, %s; signed by %s", x.Tokens, x.Model, x.Precision, x.CPU, x.Signer)
	if x.State != "" {
		what += fmt.Sprintf("; computed from the state %s on, at token %d of the prompt's %d: what led to it was not",
			x.State, x.From, x.Prompt)
	}
	if d := x.Difference; d != nil {
		why := ""
		if d.Receipt == d.Computed {
			why = ": the reply ends elsewhere"
			if d.End != "" {
				why = fmt.Sprintf(": the reply ends here (%s)", d.End)
			}
		}
		_, err := fmt.Fprintf(out, "token %d differs%s, of %s\n  receipt:  id %d, logit %v, link %s\n"+
			"  computed: id %d, logit %v, link %s\n", d.At+1, why, what, d.Receipt.ID, d.Receipt.Logit, d.Receipt.Link,
			d.Computed.ID, d.Computed.Logit, d.Computed.Link)
		return err
	}
	if !x.Drawn {
		what += "; a format limited what could be drawn, so the logits were compared and the drawing was not"
	}
	_, err := fmt.Fprintf(out, "equal: %s\n", what)
	return err
}
