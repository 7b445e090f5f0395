package browser

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/web"
)

// TestHostileOutput checks that everything a model writes is text: nothing of it is run, is loaded or becomes a link to
// a script.
func TestHostileOutput(t *testing.T) {
	m := newModelOf(t, "hostile", chatTemplate, hostile{tokenizer.Bytes()})
	p := newTab(t, newServer(t, serve.Options{}, m))
	p.limit("300")
	p.click("#tokens")
	p.send(attacks[0])
	p.click("#tokens") // the same reply, while it is being written
	p.until(`document.querySelector('.message.assistant .prose')`)
	p.send(attacks[1])
	shown := p.text(".message.assistant .prose")
	for _, text := range []string{"onerror=", "<script>", "<iframe"} {
		if !strings.Contains(shown, text) {
			t.Errorf("the page does not show %q as text: %q", text, shown)
		}
	}
	const made = `#thread img, #thread script, #thread iframe, #thread style, #thread svg:not(.icon), #thread [onerror]`
	if n := get[int](p, "document.querySelectorAll(`"+made+"`).length"); n != 0 {
		t.Errorf("found %d elements that a model wrote", n)
	}
	links := get[[]string](p, `[...document.querySelectorAll('#thread a')].map((a) => a.protocol + ' ' + a.rel)`)
	for _, link := range links {
		if link != "https: noopener noreferrer nofollow" {
			t.Errorf("found the link %q", link)
		}
	}
	if len(links) == 0 {
		t.Error("found no link, want those that go to https")
	}
	if get[bool](p, `Boolean(window.hacked)`) {
		t.Error("what a model wrote has run")
	}
}

// TestMarkdownIsLinear checks that text that is made to keep a parser busy takes time proportional to its length. Other
// work of the machine can make some measurements long, but hardly twelve.
func TestMarkdownIsLinear(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	slow := get[[]string](p, `import('/assets/markdown.js').then(({ Markdown }) => {
		const n = 20000;
		const texts = ['*', '**', '[', '](', '`+"`"+`', '> ', '# ', '- ', '  - ', '|', '| ', '~', '~~~', 'http://',
			'http://.', '[a](', '***a', '1. ', '\n', '\n\n', '\r', ' ', '\t', '_', 'a*b', '|-', '\u2028',
			'`+"```"+`a', '`+"```"+` ', '# a ', '- a ', '| a ', '$', '$a', '$$', '$a ', '$$a\n', '\\[', '\\[a\n', '\\(',
			'\\(a', '\\', '- \\[a\n  \\['];
		const took = (text) => {
			const start = performance.now();
			new Markdown().update(text);
			return performance.now() - start;
		};
		const found = [];
		for (const text of texts) for (const end of ["", "`+"`"+`"]) {
			const long = (times) => text[0] + text.repeat(times * n / text.length) + end;
			const bad = () => took(long(5)) > 12 * took(long(1)) + 60;
			if (Array.from({ length: 12 }).every(bad)) found.push(text + end);
		}
		return found;
	})`)
	if len(slow) > 0 {
		t.Errorf("these take a time that grows faster than they do: %q", slow)
	}
}

// TestPolicy checks that the page and its parts have a policy that allows only scripts of the server, and that a script
// that gets into the page does not run.
func TestPolicy(t *testing.T) {
	site := newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate))
	for path := range web.Chat() {
		answer, err := site.Client().Get(site.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		got := answer.Header.Get("Content-Security-Policy")
		if got != web.Policy || answer.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d, policy %q", path, answer.StatusCode, got)
		}
	}
	p := newTab(t, site)
	get[bool](p, `(() => {
		const div = document.createElement('div');
		div.innerHTML = '<img src=x onerror="window.hacked=1"><p style="color:red">styled</p>';
		document.body.append(div);
		const script = document.createElement('script');
		script.textContent = 'window.hacked = 1';
		document.body.append(script);
		return true;
	})()`)
	p.until(`document.querySelector('div > img[src=x]').complete`)
	if get[bool](p, `Boolean(window.hacked)`) {
		t.Error("a script inside the page has run")
	}
	got := get[string](p, `fetch('https://attacker.example/').then(() => 'came', () => 'refused')`)
	if got != "refused" {
		t.Errorf("a request to another place %s", got)
	}
	p.mu.Lock()
	p.requests, p.said = nil, nil // requests of the test itself
	p.mu.Unlock()
}

// TestOtherPathsAreErrors checks that a path that is neither a page nor an endpoint is an error of the server, and so
// are all pages of a server without pages.
func TestOtherPathsAreErrors(t *testing.T) {
	with := newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate))
	bare, err := serve.New(serve.Options{}, newModel(t, "tiny", chatTemplate))
	if err != nil {
		t.Fatal(err)
	}
	without := serveHandler(t, bare)
	for url, status := range map[string]int{
		with.URL + "/": 200, with.URL + "/index.html": 404, with.URL + "/assets/": 404,
		with.URL + "/assets/none.js": 404, with.URL + "/assets/../web.go": 404,
		without.URL + "/": 404, without.URL + "/assets/chat.js": 404,
	} {
		answer, err := with.Client().Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != status || status != 200 && !strings.HasPrefix(string(body), `{"error":`) {
			t.Errorf("%s: status %d (%v), want %d: %.200s", url, answer.StatusCode, err, status, body)
		}
	}
}

// TestKeyIsAskedFor checks that the page asks for a key if the server has keys, asks again if the key is wrong, and
// keeps the key for the window, but no longer.
func TestKeyIsAskedFor(t *testing.T) {
	key, secret := serve.NewKey("tester", serve.ScopeAll)
	p := newTabOnly(t, newServer(t, serve.Options{Keys: []serve.Key{key}}, newModel(t, "tiny", chatTemplate)))
	for _, one := range []string{"wrong", secret} {
		p.until(`document.querySelector('dialog[open] #key')`)
		p.do(chromedp.SetValue(chromedp.CSS("#key"), one))
		get[bool](p, `document.getElementById('use-key').click() ?? true`)
		p.until(`!document.querySelector('dialog') ||
			document.querySelector('dialog').innerText.includes('not valid')`)
	}
	p.until(`document.querySelector('#model option')`)
	p.limit("5")
	p.send("Hello")
	if text := get[string](p, `document.getElementById('thread').innerText`); !strings.Contains(text, "5 new") {
		t.Errorf("found %q", text)
	}
	where := get[[]bool](p, `[sessionStorage, localStorage].map((s) => JSON.stringify(s).includes('`+secret+`'))`)
	if !where[0] || where[1] {
		t.Errorf("the key is kept in the window %v, in the browser %v", where[0], where[1])
	}
}
