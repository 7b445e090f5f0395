package openai

import (
	"context"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// responseItem is an item of the output, or of a list of input items. Each type has some of the fields.
type responseItem struct {
	ID        string         `json:"id"`
	Type      string         `json:"type"`
	Status    string         `json:"status"`
	Role      string         `json:"role,omitempty"`
	Content   []responsePart `json:"content,omitzero"`
	Summary   []struct{}     `json:"summary,omitzero"`
	CallID    string         `json:"call_id,omitempty"`
	Name      string         `json:"name,omitempty"`
	Arguments *string        `json:"arguments,omitempty"`
	Input     *string        `json:"input,omitempty"` // of a custom tool
	Output    *string        `json:"output,omitempty"`
	Encrypted string         `json:"encrypted_content,omitempty"` // of a compaction
}

// responsePart is a text of an item.
type responsePart struct {
	Type        string         `json:"type"`
	Text        string         `json:"text"`
	Annotations []struct{}     `json:"annotations,omitzero"`
	Logprobs    *[]chatLogprob `json:"logprobs,omitempty"`
}

// Types of parts.
const (
	partInput     = "input_text"
	partOutput    = "output_text"
	partReasoning = "reasoning_text"
)

// newItem returns an item in progress.
func (a *Response) newItem(kind string) responseItem {
	item := responseItem{ID: itemID(kind, a.ID, outputMark, len(a.Output)), Type: kind, Status: responseRunning}
	switch kind {
	case itemMessage:
		item.Role, item.Content = host.AssistantRole, []responsePart{}
	case itemReasoning:
		item.Summary, item.Content = []struct{}{}, []responsePart{}
	case itemCall:
		item.Arguments = new(string)
	case itemCustom:
		item.Input = new(string)
	}
	return item
}

// newPart returns an empty text for an item of the given type.
func newPart(kind string) responsePart {
	if kind == itemReasoning {
		return responsePart{Type: partReasoning}
	}
	return responsePart{Type: partOutput, Annotations: []struct{}{}}
}

// reply returns the output as a message.
func (a *Response) reply() reply.Draft {
	d := reply.Draft{Role: host.AssistantRole}
	for _, item := range a.Output {
		for _, p := range item.Content {
			if item.Type == itemReasoning {
				d.Reasoning += p.Text
			} else {
				d.Content += p.Text
			}
		}
		switch item.Type {
		case itemCall:
			d.Calls = append(d.Calls, reply.ToolCall{
				ID: item.CallID, Type: "function", Function: reply.FunctionCall{Name: item.Name,
					Arguments: *item.Arguments},
			})
		case itemCustom:
			d.Calls = append(d.Calls, reply.NewCustomCall(item.CallID, item.Name, *item.Input))
		}
	}
	return d
}

// inputItems returns the items of the request's input.
func (r *responseRecord) inputItems() []responseItem {
	items := []responseItem{}
	add := func(kind string) *responseItem {
		items = append(items, responseItem{
			ID: itemID(kind, r.Response.ID, inputMark, len(items)), Type: kind, Status: ResponseCompleted,
		})
		return &items[len(items)-1]
	}
	custom := map[string]bool{} // ids of calls
	for _, m := range r.Messages {
		for _, c := range reply.DraftOf(m).Calls {
			custom[c.ID] = c.Custom != nil
		}
	}
	for _, m := range r.Input {
		d := reply.DraftOf(m)
		if d.Answers != "" {
			kind := itemOutput
			if custom[d.Answers] {
				kind = itemAnswer
			}
			item := add(kind)
			item.CallID, item.Output = d.Answers, &d.Content
			continue
		}
		if d.Reasoning != "" {
			item := add(itemReasoning)
			item.Summary, item.Content = []struct{}{}, []responsePart{{Type: partReasoning, Text: d.Reasoning}}
		}
		if d.Content != "" || len(d.Calls) == 0 {
			part := responsePart{Type: partInput, Text: d.Content}
			if d.Role == host.AssistantRole {
				part.Type, part.Annotations = partOutput, []struct{}{}
			}
			item := add(itemMessage)
			item.Role, item.Content = d.Role, []responsePart{part}
		}
		for _, c := range d.Calls {
			if c.Custom != nil {
				item := add(itemCustom)
				item.CallID, item.Name, item.Input = c.ID, c.Custom.Name, &c.Custom.Input
				continue
			}
			item := add(itemCall)
			item.CallID, item.Name, item.Arguments = c.ID, c.Function.Name, &c.Function.Arguments
		}
	}
	return items
}

// outputWriter turns the model's output into items, and emits their events.
type outputWriter struct {
	q        *responding
	tell     func(responseEvent)
	split    *reply.Splitter
	reply    *reply.Reply
	going    bool          // the last item is open
	pending  []chatLogprob // of tokens whose text is not yet sent
	thoughts int           // number of reasoning tokens
}

func newOutputWriter(q *responding, tell func(responseEvent)) *outputWriter {
	return &outputWriter{q: q, tell: tell, split: q.dialog.Split(), reply: reply.New(q.job, 0)}
}

// begin is called when the prompt has been read. If the reply can only be a message, begin opens that message.
func (w *outputWriter) begin() {
	if w.q.begun = true; !w.q.Background { // background responses sent this event when they were queued
		w.tell(responseEvent{Type: "response.created", Response: &w.q.object})
	}
	w.tell(responseEvent{Type: "response.in_progress", Response: &w.q.object})
	if d := w.q.dialog; !d.MayThink() && d.Calls == nil {
		w.open(itemMessage)
	}
}

// last returns the most recently opened item.
func (w *outputWriter) last() *responseItem { return &w.q.object.Output[len(w.q.object.Output)-1] }

// is reports whether an item of a type is open.
func (w *outputWriter) is(kind string) bool { return w.going && w.last().Type == kind }

// open opens an item of the given type, unless one is open.
func (w *outputWriter) open(kind string) *responseItem {
	if w.is(kind) {
		return w.last()
	}
	w.close(ResponseCompleted)
	w.q.object.Output, w.going = append(w.q.object.Output, w.q.object.newItem(kind)), true
	item := w.last()
	w.item("response.output_item.added", responseEvent{Item: item})
	if item.Content != nil {
		item.Content = append(item.Content, newPart(kind))
		w.part("response.content_part.added", responseEvent{Part: &item.Content[0]})
	}
	return item
}

// close closes the open item.
func (w *outputWriter) close(status string) {
	if !w.going {
		return
	}
	item := w.last()
	switch item.Type {
	case itemCall:
		w.ofItem("response.function_call_arguments.done", responseEvent{Arguments: item.Arguments})
	case itemCustom:
		w.ofItem("response.custom_tool_call_input.done", responseEvent{Input: item.Input})
	case itemReasoning:
		w.part("response.reasoning_text.done", responseEvent{Text: &item.Content[0].Text})
	default:
		logprobs := []chatLogprob{}
		if all := item.Content[0].Logprobs; all != nil {
			logprobs = *all
		}
		w.part("response.output_text.done", responseEvent{Text: &item.Content[0].Text, Logprobs: &logprobs})
	}
	if item.Content != nil {
		w.part("response.content_part.done", responseEvent{Part: &item.Content[0]})
	}
	item.Status, w.going = status, false
	w.item("response.output_item.done", responseEvent{Item: item})
}

// item emits an event about the position of the last item.
func (w *outputWriter) item(kind string, e responseEvent) {
	at := len(w.q.object.Output) - 1
	e.Type, e.Output = kind, &at
	w.tell(e)
}

// ofItem emits an event of the last item.
func (w *outputWriter) ofItem(kind string, e responseEvent) {
	e.ItemID = w.last().ID
	w.item(kind, e)
}

// part emits an event of the last item's text.
func (w *outputWriter) part(kind string, e responseEvent) {
	e.Content = new(int)
	w.ofItem(kind, e)
}

// add appends a piece. It omits the token that ends a reply.
func (w *outputWriter) add(p reply.Piece) {
	thinks := w.split.Thinks()
	fresh := w.split.Push(p.Text, p.End != "")
	if thinks = thinks || w.split.Thinks(); thinks {
		w.thoughts += len(p.Tokens)
	}
	if w.q.job.Top >= 0 {
		tokens := w.reply.Take(p)
		if p.End == generate.EndText && len(tokens) > 0 {
			tokens = tokens[:len(tokens)-1]
		}
		w.pending = append(w.pending, logprobs(w.q.job.Model, tokens)...)
	}
	if fresh.Reasoning != "" {
		w.open(itemReasoning).Content[0].Text += fresh.Reasoning
		w.part("response.reasoning_text.delta", responseEvent{Delta: &fresh.Reasoning})
	}
	// Tokens without text of their own, such as those for the first bytes of a character, are sent with the text that
	// they belong to.
	rest := w.is(itemMessage) && len(w.pending) > 0 && w.split.Settled()
	if fresh.Content != "" || rest && len(fresh.Calls) == 0 {
		w.text(fresh.Content)
	}
	if thinks || w.split.Trims() || len(fresh.Calls) > 0 {
		w.pending = nil // the tokens belong to no message
	}
	for _, c := range fresh.Calls {
		w.call(c)
	}
	if p.End != "" {
		w.q.object.Receipt = p.Receipt
		w.end(p.End)
	}
}

// text appends a text to the message, with the log-probabilities of its tokens.
func (w *outputWriter) text(text string) {
	part, logprobs := &w.open(itemMessage).Content[0], []chatLogprob{}
	part.Text += text
	if w.q.job.Top >= 0 {
		logprobs = append(logprobs, w.pending...)
		w.pending = nil
		if part.Logprobs == nil {
			part.Logprobs = &[]chatLogprob{}
		}
		*part.Logprobs = append(*part.Logprobs, logprobs...)
	}
	w.part("response.output_text.delta", responseEvent{Delta: &text, Logprobs: &logprobs})
}

// call adds a function call.
func (w *outputWriter) call(c reply.ToolCall) {
	kind, event := itemCall, "response.function_call_arguments.delta"
	if c.Custom != nil {
		kind, event = itemCustom, "response.custom_tool_call_input.delta"
	}
	w.close(ResponseCompleted)
	w.q.object.Output, w.going = append(w.q.object.Output, w.q.object.newItem(kind)), true
	item := w.last()
	item.CallID, item.Name = c.ID, c.Function.Name
	w.item("response.output_item.added", responseEvent{Item: item})
	text := item.Arguments
	if c.Custom != nil {
		text = item.Input
		*text = c.Custom.Input
	} else {
		*text = c.Function.Arguments
	}
	w.ofItem(event, responseEvent{Delta: text})
	w.close(ResponseCompleted)
}

// end closes the output.
func (w *outputWriter) end(why string) {
	a := &w.q.object
	a.Status = ResponseCompleted
	if why == generate.EndLength {
		a.Status, a.Incomplete = responseCut, &responseShort{"max_output_tokens"}
	}
	if len(a.Output) == 0 {
		w.open(itemMessage)
	}
	w.close(a.Status)
}

// responseEvent is an event of a stream. Each type has some of the fields.
type responseEvent struct {
	Type      string         `json:"type"`
	Number    int            `json:"sequence_number"`
	Response  *Response      `json:"response,omitempty"`
	ItemID    string         `json:"item_id,omitempty"`
	Output    *int           `json:"output_index,omitempty"`
	Content   *int           `json:"content_index,omitempty"`
	Item      *responseItem  `json:"item,omitempty"`
	Part      *responsePart  `json:"part,omitempty"`
	Delta     *string        `json:"delta,omitempty"`
	Text      *string        `json:"text,omitempty"`
	Arguments *string        `json:"arguments,omitempty"`
	Input     *string        `json:"input,omitempty"`
	Logprobs  *[]chatLogprob `json:"logprobs,omitempty"`
}

// eventWriter numbers events and adds them to a queue.
type eventWriter struct {
	to     interface{ Add(...[]byte) }
	number int
}

// add adds an event.
func (w *eventWriter) add(e responseEvent) { w.to.Add(w.next(e)) }

func (w *eventWriter) next(e responseEvent) []byte {
	e.Number = w.number
	w.number++
	return append([]byte("event: "+e.Type+"\n"), request.SSE(&e)...)
}

// stream runs the job and sends each piece as it is generated.
func (q *responding) stream(ctx context.Context, c *request.Call, to *request.Queue) error {
	q.events = &eventWriter{to: to}
	if err := q.run(ctx, c, q.events.add); err != nil {
		return err
	}
	q.events.add(responseEvent{Type: "response." + q.object.Status, Response: &q.object})
	return nil
}
