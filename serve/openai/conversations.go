package openai

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Conversation is OpenAI's object of a conversation.
type Conversation struct {
	ID       string            `json:"id"`
	Object   string            `json:"object"`
	Created  int64             `json:"created_at"`
	Metadata map[string]string `json:"metadata"`
}

// conversationRecord is a stored conversation. It is stored among its client's responses, and counts as one of them.
type conversationRecord struct {
	Conversation Conversation   `json:"conversation"`
	Items        []responseItem `json:"items"`
	// Last is the last response without its object and messages. The next response continues from its state, unless
	// items were added or deleted in between.
	Last *responseRecord `json:"last,omitempty"`
}

const conversationPrefix = records.ConversationPrefix

// Limits of a conversation: items added by one request, all items, and the bytes of their texts.
const (
	maxAdded        = 20
	maxItems        = 10_000
	maxConversation = 16 << 20
)

// conversationRef is the id of a conversation, given as a string or an object.
type conversationRef string

type conversationID struct {
	ID string `json:"id"`
}

func (r *conversationRef) UnmarshalJSON(data []byte) error {
	var o conversationID
	if request.IsText(data) {
		return json.Unmarshal(data, (*string)(r))
	}
	if json.Unmarshal(data, &o) != nil || o.ID == "" {
		return errors.New("found " + request.Shorten(data) + ", want the id of a conversation, or an object with it")
	}
	*r = conversationRef(o.ID)
	return nil
}

// conversation returns a stored conversation of the client. param is the field that names it, "" for the path.
func (s *Responses) conversation(c *request.Call, param, id string) (*conversationRecord, error) {
	r, err := stored[conversationRecord](s, c, "conversation", conversationPrefix, id)
	var e *request.Error
	if param != "" && errors.As(err, &e) {
		e.Param, e.Message = param, param+": "+e.Message
	}
	return r, err
}

// hold locks a conversation for one request at a time, on this server and on others that share the store. Without an
// id, there is nothing to lock.
func (s *Responses) hold(c *request.Call, id string) (h records.Hold, err error) {
	h.Release = func() {}
	if !records.IsID(conversationPrefix, id) {
		return h, nil
	}
	name := responseName(c.Owner(), id)
	r, _, err := s.store.Open(name)
	if err != nil { // the request will notice
		return h, nil
	}
	r.Close() // it exists
	busy := &request.Error{
		Status: http.StatusConflict, Code: "conversation_locked",
		Message: fmt.Sprintf("another request uses the conversation %s, want one at a time", id),
	}
	if _, held := s.held.LoadOrStore(name, true); held {
		return h, busy
	}
	locked, err := s.store.Lock(name)
	if err != nil {
		s.held.Delete(name)
		if errors.Is(err, records.ErrLocked) {
			err = busy
		}
		return h, err
	}
	return records.Hold{Release: func() {
		locked.Release()
		s.held.Delete(name)
	}, Lost: locked.Lost}, nil
}

// change changes the conversation in the path of a request, and stores it.
func (s *Responses) change(c *request.Call, by func(*conversationRecord) error) (*conversationRecord, error) {
	id := c.Request.PathValue("id")
	hold, err := s.hold(c, id)
	if err != nil {
		return nil, err
	}
	defer hold.Release()
	r, err := s.conversation(c, "", id)
	if err == nil {
		err = by(r)
	}
	if err == nil {
		err = s.put(c.Owner(), id, r)
	}
	return r, err
}

// messages returns the messages that the items form.
func (r *conversationRecord) messages(from *references) ([]reply.Message, error) {
	all := make(responseInput, len(r.Items))
	for i := range r.Items {
		var err error
		if all[i], err = r.Items[i].fields(); err != nil {
			return nil, err
		}
	}
	drafts, err := all.drafts(from)
	if err != nil {
		return nil, err
	}
	return reply.MessagesOf(from.param, drafts, nil)
}

// after returns the conversation after a response, including the response's input and output.
func (r *conversationRecord) after(last *responseRecord) *conversationRecord {
	r.Items = slices.Concat(r.Items, last.inputItems(), last.Response.Output)
	r.Last = &responseRecord{
		Model: last.Model, Identity: last.Identity, Prompt: last.Prompt, Reply: last.Reply, Plan: last.Plan,
	}
	return r
}

// changed makes the next response read the items again, since the state is not the one after the last item.
func (r *conversationRecord) changed() {
	if r.Last != nil {
		r.Last.Plan = nil
	}
}

// fits returns an error if a conversation is too long.
func (r *conversationRecord) fits(param string) error {
	n := 0
	for _, item := range r.Items {
		for _, p := range item.Content {
			n += len(p.Text)
		}
		n += len(request.Or(item.Arguments, "")) + len(request.Or(item.Input, "")) + len(request.Or(item.Output, ""))
	}
	if len(r.Items) > maxItems || n > maxConversation {
		return request.Invalid(param, "found a conversation of %d items and %d bytes, want at most %d and %d",
			len(r.Items), n, maxItems, maxConversation)
	}
	return nil
}

// add adds items sent by a client, and returns them as stored.
func (r *conversationRecord) add(items responseInput, from *references) (added []responseItem, err error) {
	if len(items) > maxAdded {
		return nil, request.Invalid(from.param, "found %d, want at most %d at a time", len(items), maxAdded)
	}
	for i, item := range items {
		if item.refers() {
			if item, err = from.item(i, item.ID); err != nil {
				return nil, err
			}
		}
		one, err := item.kept()
		if err != nil {
			return nil, request.Invalid(from.param, "%d: %v", i, err)
		}
		added = append(added, one)
	}
	r.Items = append(r.Items, added...)
	r.changed()
	if _, err := r.messages(from); err != nil {
		return nil, err
	}
	return added, r.fits(from.param)
}

// kept returns an item as stored in a conversation.
func (item *inputFields) kept() (k responseItem, err error) {
	k = responseItem{Type: item.Type, Status: ResponseCompleted}
	var text string
	switch item.Type {
	case "", itemMessage:
		var d draft
		d, err = item.message()
		part := responsePart{Type: partInput, Text: d.Content}
		if d.Role == host.AssistantRole {
			part.Type, part.Annotations = partOutput, []struct{}{}
		}
		k.Type, k.Role, k.Content = itemMessage, d.Role, []responsePart{part}
	case itemReasoning:
		var all []string
		all, err = item.thoughts()
		k.Summary, k.Content = []struct{}{}, []responsePart{}
		for _, text := range all {
			k.Content = append(k.Content, responsePart{Type: partReasoning, Text: text})
		}
	case itemCall:
		_, err = item.call()
		k.CallID, k.Name, k.Arguments = item.CallID, item.Name, &item.Arguments
	case itemCustom:
		_, err = item.call()
		k.CallID, k.Name, k.Input = item.CallID, item.Name, &item.Input
	case itemOutput, itemAnswer:
		text, err = textOf("output", item.Output)
		k.CallID, k.Output = item.CallID, &text
	default:
		err = fmt.Errorf("found an item of the type %.40q, want one of %s", item.Type, keptItems)
	}
	k.ID = idPrefixes[k.Type] + rand.Text()
	return k, err
}

// newConversation is the body of POST /v1/conversations.
type newConversation struct {
	Items    responseInput     `json:"items"`
	Metadata map[string]string `json:"metadata"`
}

// describe sets the metadata.
func (r *conversationRecord) describe(metadata map[string]string) error {
	if r.Conversation.Metadata = metadata; metadata == nil {
		r.Conversation.Metadata = map[string]string{}
	}
	return request.CheckMetadata(metadata)
}

func (s *Responses) CreateConversation(c *request.Call) error {
	var q newConversation
	if err := c.Read(&q); err != nil {
		return err
	}
	r := &conversationRecord{Items: []responseItem{}, Conversation: Conversation{
		ID: conversationPrefix + rand.Text(), Object: "conversation", Created: request.Now(),
	}}
	err := r.describe(q.Metadata)
	if err == nil {
		_, err = r.add(q.Items, s.references(c, "items"))
	}
	if err == nil {
		err = s.put(c.Owner(), r.Conversation.ID, r)
	}
	if err != nil {
		return err
	}
	return c.JSON(r.Conversation)
}

func (s *Responses) ShowConversation(c *request.Call) error {
	r, err := s.conversation(c, "", c.Request.PathValue("id"))
	if err != nil {
		return err
	}
	return c.JSON(r.Conversation)
}

// conversationUpdate is the body of POST /v1/conversations/{id}.
type conversationUpdate struct {
	Metadata map[string]string `json:"metadata"`
}

func (s *Responses) UpdateConversation(c *request.Call) error {
	var q conversationUpdate
	if err := c.Read(&q); err != nil {
		return err
	}
	r, err := s.change(c, func(r *conversationRecord) error { return r.describe(q.Metadata) })
	if err != nil {
		return err
	}
	return c.JSON(r.Conversation)
}

func (s *Responses) DeleteConversation(c *request.Call) error {
	id := c.Request.PathValue("id")
	hold, err := s.hold(c, id)
	if err != nil {
		return err
	}
	defer hold.Release()
	if _, err = s.conversation(c, "", id); err == nil {
		err = s.store.Remove(responseName(c.Owner(), id))
	}
	if err != nil {
		return err
	}
	return c.JSON(request.Deleted(id, "conversation.deleted"))
}

// newItems is the body of POST /v1/conversations/{id}/items.
type newItems struct {
	Items responseInput `json:"items"`
}

func (s *Responses) AddItems(c *request.Call) error {
	var q newItems
	if err := c.Read(&q); err != nil {
		return err
	}
	if len(q.Items) == 0 {
		return request.Invalid("items", "found nothing, want 1 to %d items", maxAdded)
	}
	var added []responseItem
	_, err := s.change(c, func(r *conversationRecord) (err error) {
		added, err = r.add(q.Items, s.references(c, "items"))
		return err
	})
	if err != nil {
		return err
	}
	return c.JSON(newList(added, func(item *responseItem) *string { return &item.ID }, false))
}

func (s *Responses) ListItems(c *request.Call) error {
	r, err := s.conversation(c, "", c.Request.PathValue("id"))
	if err != nil {
		return err
	}
	return pageOfItems(c, r.Items)
}

// item returns the index of the item in the path of a request.
func (r *conversationRecord) item(c *request.Call) (int, error) {
	id := c.Request.PathValue("item")
	i := slices.IndexFunc(r.Items, func(item responseItem) bool { return item.ID == id })
	if i < 0 {
		return i, &request.Error{
			Status: http.StatusNotFound, Code: "not_found",
			Message: fmt.Sprintf("found %.60q, which is no item of the conversation", id),
		}
	}
	return i, nil
}

func (s *Responses) ShowItem(c *request.Call) error {
	r, err := s.conversation(c, "", c.Request.PathValue("id"))
	if err != nil {
		return err
	}
	i, err := r.item(c)
	if err != nil {
		return err
	}
	return c.JSON(r.Items[i])
}

// DeleteItem deletes an item. It returns an error if that would leave a call's output without its call.
func (s *Responses) DeleteItem(c *request.Call) error {
	r, err := s.change(c, func(r *conversationRecord) error {
		i, err := r.item(c)
		if err != nil {
			return err
		}
		r.Items = slices.Delete(r.Items, i, i+1)
		r.changed()
		_, err = r.messages(s.references(c, "item"))
		return err
	})
	if err != nil {
		return err
	}
	return c.JSON(r.Conversation)
}
