package reply

import (
	"encoding/json"
	"fmt"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/receipt"
)

// ReceiptKind is the field that requests receipts of replies: true or "ids", "hash" for receipts with a hash of the
// prompt instead of its ids, or false.
type ReceiptKind string

// Kinds of receipts; "" is none.
const (
	receiptIDs  ReceiptKind = "ids"
	receiptHash ReceiptKind = "hash"
)

// UnmarshalJSON reads the field.
func (k *ReceiptKind) UnmarshalJSON(data []byte) error {
	switch text := string(data); text {
	case "true", `"ids"`:
		*k = receiptIDs
	case `"hash"`:
		*k = receiptHash
	case "false", "null", `""`:
		*k = ""
	default:
		return fmt.Errorf("found %s, want true, false, \"ids\" or \"hash\"", request.Shorten(data))
	}
	return nil
}

// Schema returns the schema of a boolean or the name of a kind.
func (*ReceiptKind) Schema() request.Schema {
	return request.AnyOf(request.Schema{"type": "boolean"}, request.Schema{"enum": []string{"ids", "hash", ""}})
}

// Receipts issues the receipts of a job; nil for none.
type Receipts struct {
	service *Service
	kind    ReceiptKind
}

// Receipts returns an issuer of receipts of a kind, or nil for none.
func (s *Service) Receipts(kind ReceiptKind) *Receipts {
	if kind == "" {
		return nil
	}
	return &Receipts{s, kind}
}

// maxReceiptIDs is the maximum number of ids of prompts in the receipts of one request.
const maxReceiptIDs = 1 << 20

// check returns an error if the receipts of a job would be too large.
func (r *Receipts) check(w *Job) error {
	if r == nil || r.kind == receiptHash {
		return nil
	}
	n := 0
	for _, ids := range w.Prompts {
		n += len(ids) * w.Draws
	}
	if n > maxReceiptIDs {
		return request.Invalid("receipt", "found receipts with %d ids of prompts, want at most %d, or \"hash\"", n,
			maxReceiptIDs)
	}
	return nil
}

// begin returns the recorder of a reply to prompt i.
func (r *Receipts) begin(w *Job, i int, o generate.Options) *receipt.Recorder {
	if r == nil {
		return nil
	}
	m, plan := w.Model, w.plan(i)
	of := receipt.Reply{
		Program: r.service.Version, Model: m.Name, CPU: m.Net.Level(), Identity: session.Identify(m.Net, m.Tokenizer),
		Template: m.Settings.Source, Plan: plan, Options: o, HashOnly: r.kind == receiptHash,
	}
	if len(w.Mounts) > 0 && w.Mounts[0].Leads(plan) {
		of.State = &receipt.State{Hash: w.Mounts[0].Hash, Position: len(w.Mounts[0].IDs)}
	}
	return receipt.New(of)
}

// end returns the receipt of a finished reply.
func (r *Receipts) end(x *receipt.Recorder, why string) (json.RawMessage, error) {
	return x.Sign(request.Now(), why, r.service.Signer)
}
