package browser

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/hippo-ssm/hippo/dashboard"
)

// putFile writes a whole file below a folder.
func putFile(t *testing.T, text string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name+".new", []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// hostileText runs a script if it is taken for markup.
const hostileText = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`

// lines returns measurements from one step to another, in the format of training.
func lines(from, to int, height float64) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, `{"step":%d,"loss":%g,"grad_norm":1.5,"lr":%g,"tokens_per_s":9000,"mem_bytes":50331648,`+
			`"elapsed_s":%d}`+"\n", i*10, height+4*math.Exp(-float64(i)/20)+0.2*math.Sin(float64(i*i)),
			1e-4*float64(i), i)
		if i%20 == 0 {
			text, _ := json.Marshal(fmt.Sprintf("sample %d %s", i, hostileText))
			fmt.Fprintf(&b, `{"step":%d,"valid_loss":%g,"sample":%s,"elapsed_s":%d}`+"\n", i*10, height+1, text, i)
		}
	}
	return b.String()
}

// newRuns returns a dashboard of a folder with three runs. The run called first was written last.
func newRuns(t *testing.T) (site *httptest.Server, dir string) {
	t.Helper()
	dir = t.TempDir()
	const hostile = `x<img src=x onerror=hacked=1>,&#"'`
	for _, name := range []string{hostile, "task", "second", "first"} {
		steps, height := 1000, 1.0
		if name == "second" {
			steps, height = 2000, 1.5
		}
		putFile(t, fmt.Sprintf("seed: 1\ntrain:\n  steps: %d\n", steps), dir, name, "config.yaml")
		putFile(t, lines(1, 100, height), dir, name, "metrics.jsonl")
	}
	putFile(t, "# Card\n\n"+hostileText+"\n", dir, "first", "MODEL.md")
	putFile(t, "{}", dir, "task", "result.json")
	putFile(t, "epochs: 3\n", dir, "task", "config.yaml")
	putFile(t, `{"step":23,"epoch":1.5,"valid_accuracy":6.6,"valid_loss":3.1,"elapsed_s":1}`+"\n", dir, "task",
		"metrics.jsonl")
	putFile(t, lines(1, 100, 1), dir, "first", "metrics.jsonl")
	h, err := dashboard.New(dashboard.Options{Dirs: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	return serveHandler(t, h), dir
}

// drawn returns an expression that reports whether the chart of a measurement has pixels across its whole width.
func drawn(measure string) string {
	return `(() => {
		const c = document.querySelector('figure[data-measure="` + measure + `"] canvas');
		if (!c) return false;
		const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		let n = 0;
		for (let i = 3; i < data.length; i += 4) n += data[i] > 0;
		return n > c.width;
	})()`
}

// chosenRun clicks on the checkbox of a run.
func (p *tab) chosenRun(name string) {
	p.t.Helper()
	p.until(`[...document.querySelectorAll('#runs li')].some((li) => li.querySelector('.name').textContent === ` +
		quoted(name) + `)`)
	get[bool](p, `[...document.querySelectorAll('#runs li')].find((li) => li.querySelector('.name').textContent === `+
		quoted(name)+`).querySelector('input').click() ?? true`)
}

// TestRunsAreShown checks that the runs of a folder are listed with their states, that the last one is drawn, that a
// second is drawn over it with the differing settings, that samples follow a slider, and that keys move the cursor of a
// chart. Nothing in a name or a sample is run as a script.
// a sample runs.
func TestRunsAreShown(t *testing.T) {
	site, dir := newRuns(t)
	p := newTabOnly(t, site)
	for _, measure := range []string{"loss", "lr", "grad_norm", "mem_bytes"} {
		p.until(drawn(measure))
	}
	list := p.text("#runs")
	for _, text := range []string{"first", "ended", "second", "stopped", "1,000 of 2,000 steps", "6.6 % right",
		"onerror"} {
		if !strings.Contains(list, text) {
			t.Errorf("the list lacks %q: %q", text, list)
		}
	}
	memory := p.text(`figure[data-measure="mem_bytes"]`)
	if !strings.Contains(memory, "MiB") || !strings.Contains(memory, "48") {
		t.Errorf("found the memory %q, want 48 MiB", memory)
	}
	p.chosenRun("second")
	const legend = `document.querySelector('figure[data-measure="loss"] .legend').innerText`
	p.until(legend + `.includes('second · training')`)
	if n := get[int](p, `document.querySelectorAll('figure[data-measure="loss"] .legend .line').length`); n != 4 {
		t.Errorf("found %d lines in the legend, want 4", n)
	}
	p.until(`document.querySelector('#settings').innerText.includes('train.steps')`)
	if text := p.text("#settings"); strings.Contains(text, "seed") {
		t.Errorf("a setting that does not differ is among those that do: %q", text)
	}
	get[bool](p, `(() => { const s = document.querySelector('#samples input'); s.value = 0;
		s.dispatchEvent(new Event('input')); return true; })()`)
	if text := p.text("#samples pre"); !strings.HasPrefix(text, "sample 20 "+"<img") {
		t.Errorf("found the sample %q, want the first", text)
	}
	for _, change := range []string{`log.click()`, `smooth.value = 0`, `x.value = 'seconds'`} {
		before := get[string](p, `document.querySelector('figure canvas').toDataURL()`)
		get[bool](p, `(() => { const { log, smooth, x } = window; `+change+`;
			smooth.dispatchEvent(new Event('input')); return true; })()`)
		p.until(drawn("loss") + ` && document.querySelector('figure canvas').toDataURL() !== ` + quoted(before))
	}
	get[bool](p, `document.querySelector('figure').focus() ?? true`)
	const at = `document.querySelector('figure .at').textContent`
	key := func(name string) {
		get[bool](p, `document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: '`+name+`'}))`)
	}
	key("ArrowLeft")
	p.until(at + ` !== ''`)
	before := get[string](p, at)
	key("ArrowLeft")
	p.until(at + ` !== ` + quoted(before))
	key("Escape")
	p.chosenRun(`x<img src=x onerror=hacked=1>,&#"'`)
	p.until(legend + `.includes('onerror')`)
	p.until(`document.querySelector('#settings').innerText.includes('onerror')`)
	if get[bool](p, `Boolean(window.hacked) ||
		document.querySelectorAll('main img, #runs img, main script').length > 0`) {
		t.Error("a name or a sample became markup")
	}
	// New measurements appear, and so does a file that has replaced another of the same length.
	putFile(t, lines(1, 120, 1), dir, "first", "metrics.jsonl")
	p.until(`document.querySelector('#values').innerText.includes('1,200')`)
	putFile(t, strings.ReplaceAll(lines(1, 120, 1), `"grad_norm":1.5`, `"grad_norm":7.5`), dir, "first",
		"metrics.jsonl")
	p.until(`document.querySelector('#values').innerText.includes('7.5')`)
	p.do(chromedp.Navigate(site.URL + "/report" + filepath.ToSlash(dir) + "/first/"))
	p.until(`document.querySelector('.report h1')`)
	if get[bool](p, `Boolean(window.hacked)`) {
		t.Error("a report ran what a model wrote")
	}
}

// TestRunsLookWell checks labels and contrast, in light and dark, and in a window as wide as a phone.
func TestRunsLookWell(t *testing.T) {
	site, _ := newRuns(t)
	p := newTabOnly(t, site)
	p.until(drawn("loss"))
	p.chosenRun("second")
	p.until(`document.querySelector('#settings').innerText.includes('train.steps')`)
	for _, theme := range []string{"light", "dark"} {
		_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
		})
		if err != nil {
			t.Fatal(err)
		}
		p.until(`matchMedia('(prefers-color-scheme: ` + theme + `)').matches`)
		p.accessible(theme)
		p.keepPicture(theme)
	}
	p.do(chromedp.EmulateViewport(360, 640))
	p.until(`document.documentElement.clientWidth === 360`)
	p.until(`document.documentElement.scrollWidth <= 360`)
	p.accessible("narrow")
	p.keepPicture("narrow")
}

// keepPicture writes a picture of a window into the folder named by PICTURES, for people to look at.
func (p *tab) keepPicture(name string) {
	p.t.Helper()
	dir := os.Getenv("PICTURES")
	if dir == "" {
		return
	}
	data, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), data, 0o666); err != nil {
		p.t.Fatal(err)
	}
}
