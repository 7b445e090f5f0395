package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/hippo-ssm/hippo/serve"
)

// TestConversationsAreKept checks that conversations are there when the page is opened again, that they can be renamed
// and deleted, and that a reply whose window was closed has the text received until then.
func TestConversationsAreKept(t *testing.T) {
	site, pace := newSlowServer(t, newModel(t, "tiny", chatTemplate))
	p := newTab(t, site)
	p.limit("500")
	pace.parts.Store(100)
	p.send("Keep this")
	partial := p.text(".message.assistant .prose")
	p.until(`document.querySelector('.conversations .title')`)
	p.do(chromedp.Reload())
	p.until(`document.querySelector('.conversations .title')?.innerText === 'Keep this'`)
	p.click(".conversations .title")
	p.until(`document.querySelector('.message.assistant .prose')`)
	if text := p.text(".message.assistant .prose"); text != partial || partial == "" {
		t.Errorf("found %q, want %q", text, partial)
	}
	p.click(".conversations [aria-label='Rename Keep this']")
	p.do(chromedp.SetValue(chromedp.CSS(".conversations input"), "A <b>name</b>"))
	p.enter(0)
	p.until(`document.querySelector('.conversations .title')?.innerText === 'A <b>name</b>'`)
	p.click(".conversations [aria-label^='Delete']")
	p.choose(".conversations button", "Delete")
	p.until(`!document.querySelector('.conversations .title') && !document.querySelector('.message')`)
}

// TestDraftsAreKept checks that a draft stays with its conversation, also when the page is left.
func TestDraftsAreKept(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	p.fill("#composer-text", "Half a message")
	p.click("#new-text")
	p.fill("#text", "Half a text")
	const titles = `[...document.querySelectorAll('.conversations .title')].map((one) => one.innerText).sort().join()`
	p.until(titles + ` === 'Half a message,Half a text'`)
	p.do(chromedp.Reload())
	p.until(`document.querySelector('#model option') && ` + titles + ` === 'Half a message,Half a text'`)
	p.choose(".conversations .title", "Half a text")
	p.until(`document.getElementById('text')?.value === 'Half a text'`)
	p.choose(".conversations .title", "Half a message")
	p.until(`document.getElementById('composer-text').value === 'Half a message'`)
}

// TestFilesOfConversations checks that exported conversations can be imported, and that a forged file adds nothing but
// texts.
func TestFilesOfConversations(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	p.limit("10")
	p.send("One")
	p.send("Two")
	const both = `(async () => {
		const { app } = await import('/assets/app.js');
		const text = JSON.stringify(await app.everything());
		await app.take(text);
		const [a, b] = (await app.everything()).conversations;
		const { path } = await import('/assets/tree.js');
		const texts = (c) => path(c).map((node) => node.role + node.content).join('|');
		return a.id !== b.id && texts(a) === texts(b) && texts(a).startsWith('userOne|assistant');
	})()`
	if !get[bool](p, both) {
		t.Error("what was imported is not what was exported")
	}
	node := func(fields string) string { return `{"conversations": [{"nodes": {"a": {` + fields + `}}}]}` }
	for file, want := range map[string]string{
		`{`: "not JSON", `[]`: "no hippo conversations", `{"conversations": [1]}`: "not an object",
		node(`"role": "user"`):                                    "no role and content",
		node(`"role": "system", "content": "x", "parent": ""`):    "no role and content",
		node(`"role": "user", "content": "x", "parent": "b"`):     "no parent",
		node(`"role": "user", "content": "x", "parent": "a"`):     "its own ancestor",
		node(`"role": "user", "content": {"x": 1}, "parent": ""`): "no role and content",
	} {
		got := get[string](p, `import('/assets/app.js').then(({ app }) => app.take(`+quoted(file)+`))
			.then(() => 'taken', (error) => error.message)`)
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}

// TestTwoWindows checks that text written in one window appears in the other, and that if both write to one
// conversation, the text of both is kept.
func TestTwoWindows(t *testing.T) {
	site := newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate))
	a := newTab(t, site)
	a.limit("10")
	a.send("Shared")
	ctx, cancel := chromedp.NewContext(a.ctx)
	defer cancel()
	b := openTab(t, ctx, site)
	b.until(`document.querySelector('#model option') && document.querySelector('.conversations .title')`)
	b.click(".conversations .title")
	b.until(`document.querySelectorAll('.message').length === 2`)
	// Both continue from the same reply at once, each without the other's message.
	for name, p := range map[string]*tab{"a": a, "b": b} {
		get[bool](p, `import('/assets/app.js').then(({ app }) => Boolean(app.send(`+quoted("From "+name)+`)))`)
	}
	const nodes = `import('/assets/app.js').then(({ app }) => !app.turn && Object.keys(app.current.nodes).length === 6)`
	for _, p := range []*tab{a, b} {
		p.until(nodes)
		p.until(`[...document.querySelectorAll('.branches span')].some((one) => one.innerText.endsWith('/2'))`)
	}
	const stored = `(async () => {
		const { heads, load } = await import('/assets/store.js');
		const [one] = await heads();
		const texts = Object.values((await load(one.id)).nodes).map((node) => node.content);
		return texts.filter((text) => text.startsWith('From ')).sort().join();
	})()`
	if got := get[string](b, stored); got != "From a,From b" {
		t.Errorf("found the messages %q", got)
	}
	get[bool](a, `import('/assets/app.js').then(({ app }) => app.remove(app.current.id)).then(() => true)`)
	b.until(`!document.querySelector('.conversations .title') && !document.querySelector('.message')`)
}
