package browser

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/rows"
)

// axe is axe.min.js of npm's axe-core 4.14.1, compressed. Its license is next to it.
//
//go:embed testdata/axe.min.js.gz
var axe []byte

// audit fails a test for each rule of axe-core that the page breaks in a serious or critical way.
func (p *tab) audit(where string) {
	p.t.Helper()
	if !get[bool](p, `Boolean(window.axe)`) {
		z, err := gzip.NewReader(bytes.NewReader(axe))
		if err != nil {
			p.t.Fatal(err)
		}
		script, err := io.ReadAll(z)
		if err != nil {
			p.t.Fatal(err)
		}
		get[bool](p, string(script)+"\n;true")
	}
	p.keepPicture(strings.ReplaceAll(where, " ", "-"))
	const still = `document.getAnimations().forEach((one) => one.effect.getTiming().iterations === Infinity || one.finish())`
	get[bool](p, still+` ?? true`)
	for _, wrong := range get[[]string](p, `axe.run({ resultTypes: ['violations'] }).then(({ violations }) => violations
		.filter(({ impact }) => impact === 'serious' || impact === 'critical')
		.map(({ id, help, nodes }) => id + ': ' + help + ': ' + nodes.map((one) => one.html.slice(0, 200)).join(' | ')))`) {
		p.t.Errorf("%s: %s", where, wrong)
	}
}

// TestAudit checks that axe-core finds nothing serious in any state of the page.
func TestAudit(t *testing.T) {
	nets := []rows.Predictor{machine}
	p := newTab(t, newServer(t, serve.Options{Predictors: nets}, newModel(t, "base", ""), newModel(t, "tiny", chatTemplate)))
	p.audit("a text to begin")
	p.pickIn("#model", "tiny")
	p.until(`document.querySelector('.examples')`)
	p.audit("a conversation to begin")
	p.limit("20")
	p.click("#tokens")
	p.send("Hello")
	p.do(chromedp.Focus(chromedp.CSS(".tokens")))
	p.press("\ue014") // the right arrow
	p.click("#open-settings")
	p.audit("tokens, settings")
	get[bool](p, shownNow("# One\n\n$x^2$\n\n$$\n\\frac{a}{b}\n$$\n\n```go\nfunc f() {} // so\n```\n\n- [a](https://a.example)\n\n|a|\n|-|\n|1|"))
	p.until(`document.querySelector('.katex') && document.querySelector('.is-keyword')`)
	get[string](p, `document.documentElement.dataset.theme = 'dark'`)
	p.audit("formulas and code, in dark")
	p.accessible("formulas and code, in dark")
	p.pickIn("#model", "machine")
	p.click("#predict")
	p.until(`document.querySelector('.predictions table, .predictions .trouble')`)
	p.audit("rows")
}

// shownNow returns an expression that shows a Markdown text below the messages.
func shownNow(text string) string {
	return `import('/assets/markdown.js').then(({ Markdown }) => {
		const one = new Markdown();
		document.getElementById('thread').append(one.element);
		one.update(` + quoted(text) + `);
		return true;
	})`
}
