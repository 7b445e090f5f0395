package browser

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hippo-ssm/hippo/serve"
)

const (
	written   = `document.getElementById('text').value`
	textEnded = `document.getElementById('go').innerText === 'Continue' && !document.getElementById('go').disabled`
)

// TestTextGoesOn checks that a model without a template continues a text from its end, and can undo what it wrote.
func TestTextGoesOn(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "base", "")))
	p.limit("12")
	p.fill("#text", "Call me")
	p.enter(2) // with Ctrl
	p.until(written + `.length > 7 && ` + textEnded)
	first := get[string](p, written)
	if !strings.HasPrefix(first, "Call me") {
		t.Fatalf("found %q", first)
	}
	p.click("#go")
	p.until(written + `.length > ` + quoted(len([]rune(first))) + ` && ` + textEnded)
	var q struct {
		Prompt string `json:"prompt"`
		Max    int    `json:"max_tokens"`
	}
	all := p.bodies("/v1/completions")
	if err := json.Unmarshal([]byte(all[len(all)-1]), &q); err != nil || q.Prompt != first || q.Max != 12 {
		t.Errorf("asked %q (%v), want to go on from %q", all, err, first)
	}
	p.choose("#steps .button", "Undo")
	p.until(written + ` === ` + quoted(first))
}

// TestTextIsScored checks that every token of a text except the first has a probability.
func TestTextIsScored(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "base", "")))
	p.fill("#text", "Call me Ishmaël.")
	p.choose("#steps .button", "Score")
	p.until(`document.querySelectorAll('.tokens .token').length === 16`)
	if text := p.text(".tokens"); text != "Call me Ishmaël." {
		t.Errorf("found the tokens of %q", text)
	}
	if n := get[int](p, `document.querySelectorAll('.tokens .token[class*=level]').length`); n != 15 {
		t.Errorf("found %d probabilities, want 15", n)
	}
}

// TestKeyboardAlone checks that a message of two lines can be written and sent, its reply copied, and the settings
// opened and closed, without a mouse.
func TestKeyboardAlone(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	p.limit("5")
	p.do(chromedp.Focus(chromedp.CSS("#composer-text")))
	p.press("one")
	p.enter(8) // with Shift
	p.press("two")
	p.enter(0)
	p.until(`document.querySelector('.message.user .plain')?.innerText === 'one\ntwo' && ` + replyEnded)
	p.do(chromedp.Focus(chromedp.CSS("#composer-text")))
	p.press(kb.ArrowUp)
	p.until(`document.activeElement.matches('.message.user textarea')`)
	p.press(kb.Escape)
	p.until(`!document.querySelector('.message.user textarea')`)
	reached := map[string]bool{}
	for range 60 {
		p.press(kb.Tab)
		where := get[string](p, `(() => {
			const at = document.activeElement;
			const style = getComputedStyle(at);
			const seen = style.outlineStyle !== 'none' || at.id === 'composer-text' || at === document.body;
			return (seen ? '' : 'unseen ') + (at.id || at.getAttribute('aria-label') || at.innerText);
		})()`)
		if strings.HasPrefix(where, "unseen") {
			t.Errorf("the focus is not seen at %q", where)
		}
		reached[where] = true
	}
	for _, name := range []string{"open-settings", "open-branches", "tokens", "theme", "model", "attach", "new-text",
		"Another reply", "Several replies side by side", "Edit", "Search titles"} {
		if !reached[name] {
			t.Errorf("Tab does not reach %q", name)
		}
	}
	get[bool](p, `document.getElementById('open-settings').focus() ?? true`)
	p.enter(0)
	p.until(`document.activeElement.id === 'tab-settings'`)
	p.press(kb.ArrowRight)
	p.until(`document.activeElement.id === 'tab-branches'`)
	p.press(kb.Escape)
	p.until(`document.getElementById('panel').hidden`)
}
