package browser

import (
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/serve"
)

// shownAs returns an expression for how the page shows a Markdown text once it is typeset, as f(element), and for what
// the policy has refused meanwhile.
func shownAs(text, f string) string {
	return `(async () => {
		const refused = [];
		const note = (event) => refused.push(event.violatedDirective + ' ' + event.sample);
		document.addEventListener('securitypolicyviolation', note);
		const { Markdown } = await import('/assets/markdown.js');
		const one = new Markdown();
		document.getElementById('thread').replaceChildren(one.element);
		one.update(` + quoted(text) + `);
		await import('/assets/formulas.js').then(({ typeset }) => typeset(one.element));
		await import('/assets/highlight/highlight.min.js');
		await new Promise((done) => setTimeout(done, 20));
		document.removeEventListener('securitypolicyviolation', note);
		return [String((` + f + `)(one.element)), refused.join(' ')];
	})()`
}

// TestFormulasAndCode checks that formulas are typeset between the delimiters that models write, and that prices are
// not; that code of a known language has colors; and that neither needs more than the policy allows.
func TestFormulasAndCode(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	const count = `(e) => [e.querySelectorAll('.katex').length, e.querySelectorAll('.katex-display').length,
		e.querySelectorAll('math').length].join()`
	for text, want := range map[string]string{
		"a $x^2$ b":                      "1,0,1",
		`\(x\) and \[y\] here`:           "2,1,2",
		"so\n$$\n\\frac{a}{b}\n$$\nthen": "1,1,1",
		"so\n\\[\nx\n*y*\n\\]":           "1,1,1",
		"1. so\n   $$x$$\n2. $y$":        "2,1,2",
		"> $x$\n\n| a |\n|---|\n| $y$ |": "2,0,2",
		"$5 and $10, $A/$B, \\$x\\$":     "0,0,0",
		"`$x$`\n```\n$$x$$\n```":         "0,0,0",
		"$$\nx\n\ny\n$$":                 "0,0,0",
		`$\boxed{\sqrt[3]{x}}\overbrace{a}^{b}\begin{pmatrix}1&2\\3&4\end{pmatrix}\cancel{x}\color{red}z$`: "1,0,1",
	} {
		if got := get[[]string](p, shownAs(text, count)); got[0] != want || strings.Contains(got[1], "style-src") {
			t.Errorf("%q: found %q, want %s formulas, displayed ones, and MathML", text, got, want)
		}
	}
	fonts := get[[]string](p, shownAs("$x$", `(e) => getComputedStyle(e.querySelector('.mathnormal')).fontFamily`))
	if !strings.HasPrefix(fonts[0], "KaTeX_Math") {
		t.Errorf("found the font %q", fonts)
	}
	p.until(`document.fonts.load('16px KaTeX_Math').then((all) => all.length === 1 && all[0].status === 'loaded')`)
	const colors = `(e) => [...e.querySelectorAll('code span')].map((s) => s.className + s.innerText).join()`
	for text, want := range map[string]string{
		"```go\nreturn \"<b>\" // x\n```":       `is-keywordreturn,is-string"<b>",is-comment// x`,
		"```go\nreturn 1":                       "", // incomplete
		"```unheard-of\nreturn 1\n```":          "",
		"```html\n<script>if (1)</script>\n```": "is-tag<script>,is-namescript,is-keywordif,is-number1,is-tag</script>,is-namescript",
	} {
		if got := get[[]string](p, shownAs(text, colors)); got[0] != want || got[1] != "" {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
}

// TestHostileFormulas checks that a formula makes no link, loads nothing and runs nothing, and that one that would take
// long, or draw over the page, is not typeset.
func TestHostileFormulas(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	const made = `(e) => e.querySelectorAll('.katex a, [href^=javascript], img, script, iframe, [onclick], [onload], [data-x], [id], .own').length`
	hostile := []string{
		`\href{javascript:window.hacked=1}{x}`, `\url{javascript:hacked}`, `\includegraphics{https://attacker.example/x}`,
		`\htmlData{x=1}{y}`, `\htmlId{main}{y}`, `\htmlClass{own}{y}`, `\htmlStyle{position:fixed}{y}`,
		`\text{<img src=x onerror=window.hacked=1>}`, `<script>window.hacked=1</script>`, `\unicode{x}`, `{`, `\left(`,
		`x$<b>`, `\begin{array}{c}`, `\verb|<svg onload=window.hacked=1>|`,
	}
	for _, form := range []string{"$%$", "$$\n%\n$$", `\(%\)`, `\[%`} {
		var text strings.Builder
		for _, tex := range hostile {
			text.WriteString(strings.ReplaceAll(form, "%", tex) + "\n\n")
		}
		if got := get[[]string](p, shownAs(text.String(), made)); got[0] != "0" {
			t.Errorf("%s: formulas made %s elements", form, got[0])
		}
	}
	if get[bool](p, `Boolean(window.hacked)`) {
		t.Error("a formula has run")
	}
	const took = `(e) => performance.now() - window.begun > 3000`
	for name, tex := range map[string]string{
		"nested accents": strings.Repeat(`\hat{`, 30) + "x" + strings.Repeat("}^2", 30),
		"nested braces":  strings.Repeat("{", 2000) + strings.Repeat("}", 2000),
		"macros":         `\def\a{` + strings.Repeat("x", 3000) + `}` + strings.Repeat(`\a`, 400),
		"long":           strings.Repeat("x+", 40000),
		"fractions":      strings.Repeat(`\frac{1}`, 400) + "x",
		"arrays":         strings.Repeat(`\begin{matrix}x&`, 60) + strings.Repeat(`\end{matrix}`, 60),
		"deep enough":    strings.Repeat(`\hat{`, 20) + "x" + strings.Repeat("}^2", 20),
	} {
		get[float64](p, `window.begun = performance.now()`)
		if got := get[[]string](p, shownAs("$"+tex+"$", took)); got[0] != "false" {
			t.Errorf("%s took seconds", name)
		}
	}
	get[float64](p, `window.begun = performance.now()`)
	java := shownAs("```java\n"+strings.Repeat("$", 19000)+"\n```", took)
	if got := get[[]string](p, java); got[0] != "false" {
		t.Error("code of one line took seconds")
	}
	const over = `(e) => { const at = document.elementFromPoint(e.getBoundingClientRect().left - 40,
		e.getBoundingClientRect().top + 5); return e.contains(at); }`
	for _, tex := range []string{`\kern-20em\kern-20em\rule{60em}{20em}`, `\llap{\rule{20em}{9em}}`, `\raisebox{-20em}{x}`} {
		if got := get[[]string](p, shownAs("$"+tex+"$", over)); got[0] != "false" {
			t.Errorf("%s draws outside of its reply", tex)
		}
	}
}

// TestLongReplyIsSmooth checks that the shown part of a reply stays while it grows, and that the time of an update does
// not grow with its length. Other work of the machine can make some measurements long, but hardly both.
func TestLongReplyIsSmooth(t *testing.T) {
	p := newTab(t, newServer(t, serve.Options{}, newModel(t, "tiny", chatTemplate)))
	const grow = `(async () => {
		const { Markdown } = await import('/assets/markdown.js');
		const { typeset } = await import('/assets/formulas.js');
		const part = 'Some words of a paragraph. '.repeat(20) + 'A *line* with $x^2$ and a list:\n- one\n- $y$\n\n$$\nz\n$$\n` + "```js\\nlet x = 1;\\n```" + `\n| a |\n|---|\n| 1 |\n\n';
		const text = part.repeat(Math.ceil(20000 / part.length)).slice(0, 20000);
		const write = (whole) => {
			const one = new Markdown();
			document.getElementById('thread').replaceChildren(one.element);
			const start = performance.now();
			for (let n = 40; n <= whole.length; n += 160) one.update(whole.slice(0, n));
			return [one, performance.now() - start];
		};
		await import('/assets/katex/katex.min.js');
		const [one] = write(text);
		const first = one.element.firstChild;
		await typeset(one.element);
		await new Promise((done) => setTimeout(done, 100));
		const formula = one.element.querySelector('.katex');
		one.update(text + 'more $x^2$');
		const fresh = new Markdown();
		fresh.update(text + 'more $x^2$');
		document.getElementById('thread').append(fresh.element);
		await typeset(one.element);
		await typeset(fresh.element);
		await new Promise((done) => setTimeout(done, 100));
		const slow = Array.from({ length: 2 }).every(() => write(text)[1] > 8 * write(text.slice(0, 5000))[1] + 200);
		return [one.element.firstChild === first, one.element.querySelector('.katex') === formula && Boolean(formula),
			one.element.innerText === fresh.element.innerText, !slow];
	})()`
	if got := get[[]bool](p, grow); strings.Contains(quoted(got), "false") {
		t.Errorf("found %v, want: blocks stay, formulas stay, as written at once, time in proportion", got)
	}
	const selected = `(async () => {
		const { Markdown } = await import('/assets/markdown.js');
		const one = new Markdown();
		document.getElementById('thread').replaceChildren(one.element);
		one.update('Some words $x$ and');
		getSelection().setBaseAndExtent(one.element.firstChild.firstChild, 0, one.element.firstChild.firstChild, 4);
		one.update('Some words $x$ and **more** of them');
		return String(getSelection()) + '|' + one.element.innerText;
	})()`
	if got := get[string](p, selected); !strings.HasPrefix(got, "Some|Some words") {
		t.Errorf("found %q, want the selection kept", got)
	}
}
