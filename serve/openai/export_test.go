package openai

import "github.com/hippo-ssm/hippo/serve/records"

// Names of the package that its tests use.
const (
	ItemAnswer    = itemAnswer
	ItemCall      = itemCall
	ItemCustom    = itemCustom
	ItemMessage   = itemMessage
	ItemOutput    = itemOutput
	ItemReasoning = itemReasoning
	MaxReferred   = maxReferred
	MaxTasks      = maxTasks
	PartReasoning = partReasoning
	ResponseCut   = responseCut

	ResponseQueued = responseQueued
)

// Types of responses.
type (
	ChatLogprob        = chatLogprob
	CompletionChoice   = completionChoice
	CompletionLogprobs = completionLogprobs
	ResponseEvent      = responseEvent
	ResponseItem       = responseItem
	ResponseRecord     = responseRecord
)

// ResponseName returns the name of a record.
var ResponseName = responseName

// Store returns the store of responses.
func (s *Responses) Store() *records.Store { return s.store }

// Ending makes a finished response look like a background response that is not stored yet, until the function is
// called.
func (s *Responses) Ending(owner string, a Response) func() {
	name := responseName(owner, a.ID)
	_ = s.tasks.add(owner, name, &task{q: &responding{object: a}, done: make(chan struct{})})
	return func() { s.tasks.end(owner, name) }
}
