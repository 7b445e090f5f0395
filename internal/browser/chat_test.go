package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/web"
)

// messages is an expression for the texts of the messages that the page shows.
const messages = `[...document.querySelectorAll('.message .body')].map((body) => body.innerText)`

// asked is a request of the page to the chat endpoint.
type asked struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	N           int      `json:"n"`
	Temperature *float64 `json:"temperature"`
	TopK        *int     `json:"top_k"`
	MaxTokens   int      `json:"max_tokens"`
	Seed        *int64   `json:"seed"`
	Stop        []string `json:"stop"`
	Logprobs    bool     `json:"logprobs"`
	Continue    bool     `json:"continue_final_message"`
}

// lastAsked returns the last request to the chat endpoint.
func (p *tab) lastAsked() asked {
	p.t.Helper()
	return lastRequest[asked](p)
}

// lastRequest returns the fields that T has of the last request to the chat endpoint.
func lastRequest[T any](p *tab) (q T) {
	p.t.Helper()
	all := p.bodies("/v1/chat/completions")
	if len(all) == 0 {
		p.t.Fatal("the page has asked nothing")
	}
	if err := json.Unmarshal([]byte(all[len(all)-1]), &q); err != nil {
		p.t.Fatal(err)
	}
	return q
}

// TestReplyIsStreamed checks that a message is answered, and that the page says what the reply cost, and how much was
// cached.
func TestReplyIsStreamed(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	p.limit("40")
	long := "Hello" + strings.Repeat(" again", 200)
	p.send(long)
	p.until(`document.querySelector('.facts .made')?.innerText === '40 new'`)
	if text := p.text(".message.user .plain"); text != long {
		t.Errorf("found the message %q", text)
	}
	p.send("And more")
	p.until(`document.querySelectorAll('.facts .cached').length === 2`)
	const cached = `parseInt([...document.querySelectorAll('.facts .cached')][1].innerText.replace(',', ''))`
	if n := get[int](p, cached); n < 1000 {
		t.Errorf("found %d cached tokens of the second message, want most of the first", n)
	}
	if n := get[int](p, `document.querySelectorAll('.facts .first, .facts .speed').length`); n != 4 {
		t.Errorf("found %d times and speeds, want those of two replies", n)
	}
	q := p.lastAsked()
	if len(q.Messages) != 3 || q.Messages[0].Content != long || q.Messages[1].Role != "assistant" || q.Seed == nil {
		t.Errorf("asked %+v", q)
	}
}

// TestThoughtsStandApart checks that a model's thoughts are folded once it answers, and are not in the reply that it
// reads again.
func TestThoughtsStandApart(t *testing.T) {
	s, err := serve.New(serve.Options{Pages: web.Chat()}, newModel(t, "tiny", chatTemplate))
	if err != nil {
		t.Fatal(err)
	}
	p := newTab(t, serveHandler(t, thinker{s}))
	p.send("2 + 2?")
	const thoughts = `document.querySelector('.thoughts')`
	got := get[string](p, thoughts+`.lastChild.textContent`)
	if got != "<b>Hm, well." || get[bool](p, thoughts+`.open`) {
		t.Errorf("found the thoughts %q, open or closed", got)
	}
	p.send("And 3 + 3?")
	if q := p.lastAsked(); len(q.Messages) != 3 || q.Messages[1].Content != "Four." {
		t.Errorf("asked %+v", q)
	}
}

// TestStopKeepsWhatThereIs checks that Escape ends a reply, which keeps its text and can be continued.
func TestStopKeepsWhatThereIs(t *testing.T) {
	site, _ := newSlowServer(t, newModel(t, "tiny", chatTemplate))
	p := newTab(t, site)
	p.limit("400")
	p.fill("#composer-text", "Hello")
	p.enter(0)
	p.until(`document.querySelector('.message.assistant .prose')?.innerText.length > 5`)
	if name := get[string](p, `document.getElementById('send').ariaLabel`); !strings.HasPrefix(name, "Stop") {
		t.Errorf("the button is called %q while a reply comes", name)
	}
	p.press(kb.Escape)
	p.until(replyEnded)
	const length = `document.querySelector('.message.assistant .prose').innerText.length`
	const button = ".message.assistant .actions .button"
	p.choose(button, "Continue")
	p.until(fmt.Sprintf("%s > %d", length, get[int](p, length)+5))
	first := p.lastAsked()
	if len(first.Messages) != 2 || !first.Continue || first.Messages[1].Role != "assistant" ||
		first.Messages[1].Content == "" {
		t.Fatalf("asked %+v", first)
	}
	p.press(kb.Escape)
	p.until(replyEnded)

	// The page shows Markdown, which may look different when more text has come; the request contains the text itself.
	p.choose(button, "Continue")
	p.until(`document.querySelector('.running')`)
	again, kept := p.lastAsked(), first.Messages[1].Content
	if text := again.Messages[1].Content; !strings.HasPrefix(text, kept) || text == kept {
		t.Errorf("asked to go on from %q, want more than %q", text, kept)
	}
	p.press(kb.Escape)
	p.until(replyEnded)
}

// TestLostConnection checks that the received part of a reply stays, that the page says why it ended, and that it can
// be continued.
func TestLostConnection(t *testing.T) {
	site, pace := newSlowServer(t, newModel(t, "tiny", chatTemplate))
	p := newTab(t, site)
	p.limit("20")
	pace.parts.Store(30)
	p.send("Hello")
	if text := p.text(".trouble"); !strings.Contains(text, "connection") {
		t.Errorf("the page says %q", text)
	}
	pace.parts.Store(0)
	p.choose(".message.assistant .actions .button", "Continue")
	p.until(`!document.querySelector('.trouble') && !document.querySelector('.running')`)
	if q := p.lastAsked(); !q.Continue {
		t.Errorf("asked %+v", q)
	}
}

// TestEditBranches checks that an edited message is a branch, that the old one stays, and that one can switch between
// them.
func TestEditBranches(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	p.limit("10")
	p.send("First")
	p.send("Second")
	before := get[[]string](p, messages)
	p.click(`.message.user [aria-label='Edit']`)
	p.do(chromedp.SetValue(chromedp.CSS(".message.user textarea"), "Changed"))
	p.enter(0)
	p.until(`document.querySelectorAll('.message.user').length === 1 && ` + replyEnded)
	after := get[[]string](p, messages)
	if len(after) != 2 || after[0] != "Changed" {
		t.Fatalf("found %q", after)
	}
	if q := p.lastAsked(); len(q.Messages) != 1 || q.Messages[0].Content != "Changed" {
		t.Errorf("asked %+v", q)
	}
	if text := p.text(".branches span"); text != "2/2" {
		t.Errorf("found the branch %q", text)
	}
	p.click(`.branches [aria-label='Branch before']`)
	p.until(`document.querySelectorAll('.message').length === 4`)
	if back := get[[]string](p, messages); strings.Join(back, "|") != strings.Join(before, "|") {
		t.Errorf("found %q, want %q", back, before)
	}
	p.click("#open-branches")
	if n := get[int](p, `document.querySelectorAll('.spot').length`); n != 6 {
		t.Errorf("found %d messages in the tree, want 6", n)
	}
	p.do(chromedp.Focus(chromedp.CSS(`.spot[aria-label='You: Changed']`)))
	p.enter(0)
	p.until(`document.querySelectorAll('.message').length === 2`)
}

// TestForkIsAConversation checks that a fork has the messages up to the fork, and that new ones are not in the other
// conversation.
func TestForkIsAConversation(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	p.limit("10")
	p.send("First")
	p.send("Second")
	p.click(`.message.assistant [aria-label^='Fork']`)
	p.until(`document.querySelectorAll('.conversations li').length === 2`)
	p.until(`document.querySelectorAll('.message').length === 2`)
	p.send("Other")
	p.until(`document.querySelectorAll('.message').length === 4`)
	p.choose(".conversations .title", "First")
	p.until(`[...document.querySelectorAll('.plain')].some((one) => one.innerText === 'Second')`)
	if text := get[string](p, `document.getElementById('thread').innerText`); strings.Contains(text, "Other") {
		t.Errorf("the conversation has what was said in its fork: %q", text)
	}
}

// sideBySide requests n replies to the last message, and waits for them to end.
func (p *tab) sideBySide(n int) {
	p.t.Helper()
	get[bool](p, `(() => {
		const select = [...document.querySelectorAll('.message.assistant .several')].at(-1);
		select.value = '`+strconv.Itoa(n)+`';
		select.dispatchEvent(new Event('change'));
		return true;
	})()`)
	p.until(`document.querySelectorAll('.compare .message').length === ` + strconv.Itoa(n) + ` && ` + replyEnded)
}

// TestRepliesSideBySide checks that three replies can be requested at once, and that the chosen one is continued.
func TestRepliesSideBySide(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	p.limit("10")
	p.send("Hello")
	p.sideBySide(3)
	if q := p.lastAsked(); q.N != 3 {
		t.Errorf("asked %+v", q)
	}
	const second = `document.querySelectorAll('.compare .message')[1]`
	text := get[string](p, second+`.querySelector('.body').innerText`)
	get[bool](p, second+`.querySelector('.button').click() ?? true`)
	p.until(`!document.querySelector('.compare')`)
	if got := p.text(".message.assistant .body"); got != text {
		t.Errorf("found %q, want the reply that was chosen: %q", got, text)
	}
	if at := p.text(".branches span"); at != "3/4" {
		t.Errorf("found the branch %q", at)
	}
}

// TestSettingsAreSent checks that settings are sent with the request, that unset ones are not, and that the model's
// defaults are shown.
func TestSettingsAreSent(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	p.click("#open-settings")
	p.until(`document.getElementById('set-temperature')?.placeholder === '0.7'`)
	p.fill("#set-system", "Be brief.")
	p.fill("#set-max_tokens", "7")
	p.fill("#set-top_k", "5")
	p.fill("#set-seed", "42")
	p.fill("#set-stop", "<user>\n\\n\\n")
	p.send("Hello")
	q := p.lastAsked()
	if q.Temperature != nil || q.TopK == nil || *q.TopK != 5 || q.MaxTokens != 7 || *q.Seed != 42 ||
		strings.Join(q.Stop, "|") != "<user>|\n\n" || q.Messages[0].Role != "system" ||
		q.Messages[0].Content != "Be brief." {
		t.Errorf("asked %s", p.bodies("/v1/chat/completions"))
	}
	p.fill("#set-temperature", "-1")
	p.send("Again")
	if text := p.text(".trouble"); !strings.Contains(text, "temperature: found -1") {
		t.Errorf("the page says %q, want the server's error", text)
	}
}

// TestTokensAndAlternatives checks that tokens have colors by their probabilities, that the arrow keys show their
// alternatives, and that Enter continues with an alternative.
func TestTokensAndAlternatives(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	p.limit("12")
	p.click("#tokens")
	p.send("Hello")
	if q := p.lastAsked(); !q.Logprobs {
		t.Errorf("asked %+v", q)
	}
	const spans = `document.querySelectorAll('.tokens .token')`
	if n := get[int](p, spans+`.length`); n < 3 || n > 12 {
		t.Fatalf("found %d tokens", n)
	}
	// Choose the first token that has an alternative that is text, because a part of a character cannot be continued.
	choice := get[[]int](p, `(() => {
		const all = [...`+spans+`];
		const which = ({ token }) => token.top.findIndex(([text]) => text !== token.text && !text.startsWith('bytes:'));
		const at = all.findIndex((span) => which(span) >= 0);
		return [at, which(all[at])];
	})()`)
	p.do(chromedp.Focus(chromedp.CSS(".tokens")))
	for range choice[0] + 1 {
		p.press(kb.ArrowRight)
	}
	p.until(`document.querySelectorAll('#alternatives:not([hidden]) tr').length >= 5`)
	if said := get[string](p, `document.getElementById('said').textContent`); !strings.Contains(said, "Instead:") {
		t.Errorf("who hears the page hears %q", said)
	}
	p.press(strconv.Itoa(choice[1] + 1))
	p.until(`document.querySelector('.branches span')?.innerText === '2/2' && ` + replyEnded)
	if q := p.lastAsked(); !q.Continue || len(q.Messages) != 2 || q.Messages[1].Content == "" {
		t.Errorf("asked %+v", q)
	}
}

// TestFilesGoWithAMessage checks that files that are chosen or dropped become part of the message, and that files that
// are not text are refused.
func TestFilesGoWithAMessage(t *testing.T) {
	dir := t.TempDir()
	note, picture := filepath.Join(dir, "note.txt"), filepath.Join(dir, "picture.bin")
	for name, text := range map[string]string{note: "a secret: ```42```\n", picture: "\x89PNG\x00\xff"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	p.limit("5")
	p.do(chromedp.SetUploadFiles(chromedp.CSS("#composer input[type=file]"), []string{picture}))
	p.until(`document.getElementById('notice').innerText.includes('picture.bin is an image')`)
	p.do(chromedp.SetUploadFiles(chromedp.CSS("#composer input[type=file]"), []string{note}))
	p.until(`document.querySelector('.chip')?.innerText.includes('19 tokens')`)
	get[bool](p, `(() => {
		const data = new DataTransfer();
		data.items.add(new File(['dropped'], 'drop.txt'));
		const drop = new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true });
		return !document.body.dispatchEvent(drop);
	})()`)
	p.until(`document.querySelectorAll('.chip').length === 2`)
	p.click("[aria-label='Remove drop.txt']")
	p.send("What is it?")
	want := "note.txt:\n````\na secret: ```42```\n````\n\nWhat is it?"
	if q := p.lastAsked(); q.Messages[0].Content != want {
		t.Errorf("asked %q, want %q", q.Messages[0].Content, want)
	}
	if text := p.text(".file summary"); !strings.Contains(text, "note.txt") {
		t.Errorf("the message shows the file %q", text)
	}
}

// quoted returns a value as JSON.
func quoted(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // tests have only valid values
	}
	return string(data)
}
