package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/rows"
)

// machine answers rows with their number and their contents.
var machine = rows.Predictor{
	Name: "machine", Made: time.Unix(1, 0),
	About: json.RawMessage(`{"task": "anomaly", "time": "time", "streams": true, "columns": [
		{"name": "load", "kind": "number", "unit": "kW", "input": true, "target": false},
		{"name": "state", "kind": "category", "input": true, "target": false, "classes": ["<b>on</b>", "off"]}]}`),
	Answer: func(_ context.Context, q rows.Query) error {
		text, err := io.ReadAll(q.Rows)
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), "0.5") {
			return fmt.Errorf("load: found nothing")
		}
		q.Count()
		q.Note("a <b>note</b>")
		_, err = fmt.Fprintf(q.Out, `{"row": 1, "format": %q, "rows": %q, "p": {"<i>": 1}}`+"\n", q.Format, text)
		return err
	},
}

// TestEmptyPageIsOfTheModel checks that an empty page offers what fits the model: examples of messages, a text to
// continue, or a form for rows, whose predictions are shown as text.
func TestEmptyPageIsOfTheModel(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{Predictors: []rows.Predictor{machine}}, newModel(t, "base", ""),
		newModel(t, "tiny", chatTemplate)))
	p.until(`document.querySelector('#text-about')?.innerText.includes('base continues the text')`)
	p.pickIn("#model", "tiny")
	p.click(".examples .button")
	const message = `document.getElementById('composer-text')`
	p.until(message + `.value.length > 20 && document.activeElement === ` + message)
	p.pickIn("#model", "machine") // the draft stays in its conversation
	p.until(`document.getElementById('rows')?.value === 'time,load,state\n'`)
	if text := p.text(".data"); !strings.Contains(text, "how unexpected each row is") || !strings.Contains(text, "load (kW)") {
		t.Errorf("the page says %q", text)
	}
	p.click("#predict")
	p.until(`document.querySelector('.predictions .trouble')?.innerText !== ''`)
	p.fill("#column-load", "0.5")
	get[string](p, `document.getElementById('column-state').value = '<b>on</b>'`)
	p.fill("#column-time", "2026-04-01, noon")
	p.enter(0)
	p.until(`document.getElementById('rows').value === 'time,load,state\n"2026-04-01, noon",0.5,<b>on</b>\n'`)
	p.do(chromedp.Focus(chromedp.CSS("#rows")))
	p.enter(2) // with Ctrl
	p.until(`document.querySelector('.predictions td')`)
	if text := p.text(".predictions"); !strings.Contains(text, "a <b>note</b>") || !strings.Contains(text, "noon") ||
		!strings.Contains(text, `{"<i>":1}`) || !strings.Contains(text, "csv") {
		t.Errorf("the page shows %q", text)
	}
	if n := get[int](p, `document.querySelectorAll('.data b, .data i').length`); n != 0 {
		t.Errorf("found %d elements that were in the data", n)
	}
	p.dropFile("rows.jsonl", `{"load": 0.5}`)
	p.until(`document.getElementById('rows').value === '{"load": 0.5}'`)
	p.click("#predict")
	p.until(`document.querySelector('.predictions').innerText.includes('jsonl')`)
	p.pickIn("#model", "base")
	p.until(`document.getElementById('text')`)
	p.dropFile("start.txt", "Call me")
	p.until(`document.getElementById('text').value === 'Call me'`)
}

// dropFile drops a file on the page.
func (p *tab) dropFile(name, text string) {
	p.t.Helper()
	get[bool](p, `(() => {
		const data = new DataTransfer();
		data.items.add(new File([`+quoted(text)+`], `+quoted(name)+`));
		return !document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
	})()`)
}

// TestChoicesAreRemembered checks that the model and the settings are kept until the next visit, that a missing model
// is replaced with a notice, and that the page works whatever is in the storage.
func TestChoicesAreRemembered(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "one", chatTemplate), newModel(t, "two", chatTemplate)))
	p.pickIn("#model", "two")
	p.click("#open-settings")
	p.fill("#set-max_tokens", "7")
	again := func() {
		t.Helper()
		get[bool](p, `(window.before = true)`)
		p.do(chromedp.Reload())
		p.until(`!window.before && document.querySelector('#model option') && document.activeElement.id === 'composer-text'`)
	}
	again()
	p.until(`document.getElementById('model').value === 'two'`)
	p.send("Hello")
	if q := p.lastAsked(); q.Model != "two" || q.MaxTokens != 7 {
		t.Errorf("asked %+v", q)
	}
	if keys := get[string](p, `Object.keys(localStorage).join()`); keys != "hippo.choices" {
		t.Errorf("the browser keeps %s", keys)
	}
	for _, kept := range []string{`{"model": "gone", "settings": {"__proto__": {"x": 1}, "max_tokens": {}}}`, `[1`, `null`,
		`{"model": {}, "settings": "abc"}`} {
		get[bool](p, `localStorage.setItem('hippo.choices', `+quoted(kept)+`) ?? true`)
		again()
		p.until(`document.getElementById('model').value === 'one'`)
		if gone := strings.Contains(kept, "gone"); get[bool](p, `document.getElementById('notice').innerText.includes(
			'does not have the model gone: one is used')`) != gone {
			t.Errorf("%s: the page says %q", kept, p.text("#notice"))
		}
	}
}

// TestFilesAreReadAhead checks that the server reads attached files while the message is written, with progress, and
// that the message continues from there; files that are not text, or too long for the model, are refused with a reason.
func TestFilesAreReadAhead(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{MaxPrompt: 20000, MaxBody: 1 << 18}, newModel(t, "tiny", chatTemplate)))
	p.limit("5")
	for file, want := range map[string]string{
		"%PDF-1.7": "is a PDF", "PK\x03\x04": "is an archive", "GIF89a": "is an image", "": "is empty", "a\x00": "zero byte",
		strings.Repeat("x", 25000): "makes 25,000 tokens: tiny reads at most 20,000",
		strings.Repeat("x", 1<<19): "is refused by the server",
	} {
		p.dropFile("file", file)
		p.until(`document.getElementById('notice').innerText.startsWith('file ') &&
			document.getElementById('notice').innerText.includes(` + quoted(want) + `)`)
	}
	p.until(`!document.querySelector('.chip')`)
	p.dropFile("long.txt", strings.Repeat("some words ", 1200))
	p.until(`document.querySelector('.reading progress')?.value === 1`)
	pieces := len(p.bodies("/v1/chat/completions"))
	p.send("And so?")
	p.until(`document.querySelector('.facts .cached')`)
	if text := p.text(".facts .cached"); !strings.HasPrefix(text, "12,") && !strings.HasPrefix(text, "13,") {
		t.Errorf("found %s tokens, want nearly all 13,200 of the file", text)
	}
	if pieces < 3 || get[string](p, `document.activeElement.id`) != "composer-text" {
		t.Errorf("the file was read in %d pieces, the focus is at %q", pieces, get[string](p, `document.activeElement.id`))
	}
}

// TestRepliesAreSaidOnce checks that screen readers announce a reply when it is complete, and none of its tokens
// before.
func TestRepliesAreSaidOnce(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	p.limit("30")
	get[bool](p, `(() => {
		window.heard = [];
		new MutationObserver(() => heard.push(said.textContent)).observe(said, { childList: true, characterData: true, subtree: true });
		return true;
	})()`)
	p.send("Hello")
	p.until(`heard.length >= 2`)
	const found = `heard.length === 2 && heard[0] === 'The reply is being written.' && heard[1].startsWith('The reply is complete: 30')
		&& heard[1].length > 60 && document.querySelectorAll('#thread[aria-live=off]').length === 1`
	if !get[bool](p, found) {
		t.Errorf("who hears the page hears %q", get[[]string](p, `heard`))
	}
	p.click("#tokens")
	p.until(`document.querySelectorAll('[role=group][aria-label="Colors of tokens"] li').length === 6`)
	const colors = `[...document.querySelectorAll('.legend .token')].map((one) => getComputedStyle(one).backgroundColor)`
	light := get[[]string](p, colors)
	get[string](p, `document.documentElement.dataset.theme = 'dark'`)
	dark := get[[]string](p, colors)
	for i := range light {
		if i > 0 && (light[i] == light[i-1] || dark[i] == dark[i-1] || light[i] == dark[i]) {
			t.Errorf("found the colors %q in light, %q in dark", light, dark)
		}
	}
	if text := p.text(".legend"); !strings.Contains(text, "at least 50 % ≤ 1.0") || !strings.Contains(text, "less > 6.6") {
		t.Errorf("the legend says %q", text)
	}
}
