package browser

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/hippo-ssm/hippo/serve"
)

// toolTemplate is a chat template that supports tools.
const toolTemplate = `{% if tools %}{{ tools | tojson }}<tool_call>{% endif %}{% for m in messages %}<{{ m.role }}>` +
	`{% for c in m.tool_calls %}[{{ c.function.name }}]{% endfor %}{{ m.content }}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`

// plot is a function whose arguments have a bounded length.
const plot = `{"name": "plot", "parameters": {"type": "object", "required": ["color"], "additionalProperties": false,
	"properties": {"color": {"enum": ["<b>red</b>", "<b>green</b>"]}}}}`

// saidOfTools holds the fields of a request about tools and formats.
type saidOfTools struct {
	Messages []struct {
		Role, Content string
		Call          string `json:"tool_call_id"`
		Calls         []struct {
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	Tools  []json.RawMessage
	Choice string `json:"tool_choice"`
	Format struct {
		Type   string
		Schema struct{ Schema json.RawMessage } `json:"json_schema"`
	} `json:"response_format"`
}

// lastSaidOfTools returns these fields of the last request.
func (p *tab) lastSaidOfTools() saidOfTools {
	p.t.Helper()
	return lastRequest[saidOfTools](p)
}

// calls sets when replies are calls.
func (p *tab) calls(when string) {
	p.t.Helper()
	p.until(`(() => { const one = document.getElementById('set-tool_choice'); one.value = ` + quoted(when) +
		`; return one.dispatchEvent(new Event('change')); })()`)
}

// TestToolsAreCalledAndAnswered checks that functions that are given as JSON can be called. The page shows a call as
// text, takes the answer by keyboard, and sends both to the model; an answer can be changed, as a branch, and text that
// is not JSON is reported.
func TestToolsAreCalledAndAnswered(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", toolTemplate)))
	p.limit("300")
	p.click("#open-settings")
	p.fill("#set-tools", `[{"name"`)
	const invalid = `document.getElementById('set-tools').getAttribute('aria-invalid') === 'true'`
	p.until(invalid)
	p.send("Too early")
	if text := p.text(".trouble"); !strings.Contains(text, "not JSON") {
		t.Errorf("the page says %q", text)
	}
	p.click(".start .button")
	get[bool](p, `(document.getElementById('set-tools').select(), true)`)
	p.fill("#set-tools", "["+plot+"]")
	p.until("!(" + invalid + ")")
	p.calls("required")
	p.send("Aye")
	const call = `document.querySelector('.call')`
	p.until(call)
	if text := p.text(".call"); !strings.Contains(text, "calls plot") || !strings.Contains(text, `"color": "<b>`) {
		t.Errorf("the call is shown as %q", text)
	}
	p.accessible("a call")
	if n := get[int](p, `document.querySelectorAll('.call b').length`); n != 0 {
		t.Errorf("found %d elements of what a model wrote", n)
	}
	q := p.lastSaidOfTools()
	if len(q.Tools) != 1 || q.Choice != "required" {
		t.Errorf("asked %+v", q)
	}
	p.calls("none")
	const field = `.answers textarea`
	if got := get[string](p, `document.querySelector('`+field+`').labels[0].innerText`); got != "Result of plot" {
		t.Errorf("the field is called %q", got)
	}
	// A reply may contain several calls, each with a field: Enter moves to the next field, and sends from the last.
	n := get[int](p, `document.querySelectorAll('`+field+`').length`)
	p.do(chromedp.Focus(chromedp.CSS(field)))
	for i := range n {
		p.until(fmt.Sprintf(`document.querySelectorAll('%s')[%d] === document.activeElement`, field, i))
		if _, err := chromedp.Call(p.ctx, input.InsertText, input.InsertTextParams{
			Text: fmt.Sprintf("It is <i>done</i> %d", i),
		}); err != nil {
			t.Fatal(err)
		}
		p.enter(0)
	}
	p.until(`document.querySelectorAll('.message.assistant').length === 2 && !document.querySelector('.running')`)
	q = p.lastSaidOfTools()
	if len(q.Messages) != 2+n || len(q.Messages[1].Calls) != n {
		t.Fatalf("asked %+v after %d calls", q, n)
	}
	for i, m := range q.Messages[2:] {
		if m.Role != "tool" || m.Content != fmt.Sprintf("It is <i>done</i> %d", i) ||
			m.Call != q.Messages[1].Calls[i].ID {
			t.Errorf("asked %+v", q)
		}
	}
	if get[bool](p, `Boolean(document.querySelector('`+field+`'))`) {
		t.Error("the call can be answered twice")
	}
	p.click(`.message.answer [aria-label='Edit']`)
	get[bool](p, `(document.querySelector('.message.answer textarea').select(), true)`)
	p.fill(".message.answer textarea", "Not yet")
	p.enter(0)
	p.until(`document.querySelector('.message.answer .branches')?.innerText.includes('2/2') && ` + replyEnded)
	again := p.lastSaidOfTools()
	q.Messages[2].Content = "Not yet" // the other answers stay
	if !reflect.DeepEqual(again.Messages, q.Messages) {
		t.Errorf("asked %+v, want %+v", again.Messages, q.Messages)
	}
	p.click("#tab-branches")
	p.until(`document.querySelector('.spot[aria-label="Result of plot: Not yet"]')`)
	p.accessible("answers")
}

// TestRepliesOfASchema checks that a reply is JSON of the conversation's schema, and that {} means any object.
func TestRepliesOfASchema(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	p.limit("300")
	p.click("#open-settings")
	const schema = `{"type":"object","required":["big"],"properties":{"big":{"type":"boolean"}},` +
		`"additionalProperties":false}`
	p.fill("#set-schema", schema)
	p.send("How big?")
	var reply struct{ Big *bool }
	if err := json.Unmarshal([]byte(p.text(".message.assistant .prose")), &reply); err != nil || reply.Big == nil {
		t.Errorf("the reply is %q: %v", p.text(".message.assistant .prose"), err)
	}
	if q := p.lastSaidOfTools(); q.Format.Type != "json_schema" || string(q.Format.Schema.Schema) != schema ||
		q.Tools != nil {
		t.Errorf("asked %+v", q)
	}
	get[bool](p, `(document.getElementById('set-schema').select(), true)`)
	p.fill("#set-schema", "{}")
	p.send("And now?")
	if q := p.lastSaidOfTools(); q.Format.Type != "json_object" {
		t.Errorf("asked %+v", q)
	}
}
