// Command picture takes docs/serve.png, the picture of the page of hippo serve: go run ./picture ADDRESS FILE. The
// first model of the server at that address must have no chat template. docs/serve.sh does all of it.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// begin is the text that the model continues, twice.
const begin = "Call me Ishmael. Some years ago, never mind how long precisely,"

const (
	ended = `document.getElementById('go').innerText === 'Continue' && !document.getElementById('go').disabled`
	undo  = `[...document.querySelectorAll('#steps .button')].find((one) => one.innerText === 'Undo').click() ?? true`
	// seeds makes the page draw the same seeds of replies in each picture.
	seeds = `(() => {
		const real = crypto.getRandomValues.bind(crypto);
		let n = 0;
		crypto.getRandomValues = (to) => to instanceof Uint32Array ? to.fill(2654435769 * ++n) : real(to);
		return true;
	})()`
	tree  = `document.querySelectorAll('.spot').length > 2`
	shown = `document.querySelectorAll('#alternatives:not([hidden]) tr').length >= 5`

	token = 30 // index of the token whose alternatives are shown
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "picture: want an address and a file")
		os.Exit(2)
	}
	if err := take(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func take(address, file string) error {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(1280, 800),
		chromedp.Flag("force-color-profile", "srgb"))
	if path := os.Getenv("CHROMIUM"); path != "" {
		options = append(options, chromedp.ExecPath(path))
	}
	allocator, _ := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	defer cancel()
	const patience = 3 * time.Minute
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	t := &tab{ctx: ctx}
	t.do(chromedp.EmulateViewport(1280, 720), chromedp.Navigate(address))
	t.until(`document.querySelector('#model option') && document.getElementById('text')`)
	t.until(seeds)
	t.click("#open-settings")
	t.fill("#set-max_tokens", "200")
	t.fill("#set-temperature", "0.8")
	t.click("#open-settings")
	t.click("#tokens")
	t.fill("#text", begin)
	t.click("#go")
	t.until(ended)
	t.until(undo)
	t.click("#go")
	t.until(ended)
	t.click("#open-branches")
	t.until(tree)
	t.do(chromedp.Focus(chromedp.CSS(".tokens")))
	for range len(begin) + token {
		t.do(chromedp.KeyEvent(kb.ArrowRight))
	}
	t.until(shown)
	if t.err != nil {
		return t.err
	}
	data, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// tab is a window. After an error it does nothing.
type tab struct {
	ctx context.Context
	err error
}

func (t *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	if t.err == nil {
		t.err = chromedp.Do(t.ctx, actions...)
	}
}

func (t *tab) click(selector string) { t.do(chromedp.Click(chromedp.CSS(selector))) }

func (t *tab) fill(selector, text string) {
	t.do(chromedp.Focus(chromedp.CSS(selector)))
	if t.err == nil {
		_, t.err = chromedp.Call(t.ctx, input.InsertText, input.InsertTextParams{Text: text})
	}
}

// until waits for an expression to be true.
func (t *tab) until(expression string) {
	const pause = 20 * time.Millisecond
	for ; t.err == nil; time.Sleep(pause) {
		holds, err := chromedp.Run(t.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err != nil {
			t.err = fmt.Errorf("%s: %w", expression, err)
		} else if holds {
			return
		}
	}
}
