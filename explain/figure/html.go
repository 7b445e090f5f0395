package figure

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/web"
)

//go:embed assets
var assets embed.FS

// The scripts and styles of a page. Each script comes after those that it imports.
var (
	scripts = []string{"dom.js", "theme.js", "uplot/uPlot.js", "data.js", "scale.js", "tip.js", "lines.js", "map.js",
		"text.js", "bars.js", "diagram.js", "panels.js", "figures.js", "viewer.js", "main.js"}
	styles = []string{"style.css", "uplot/uPlot.css", "viewer.css"}
)

// WriteHTML writes a page as one self-contained file: styles, scripts and data are inside, and its policy forbids
// everything else. Texts are inserted as text, never as markup.
func (p *Page) WriteHTML(w io.Writer) error {
	if err := p.Check(); err != nil {
		return err
	}
	data, err := json.Marshal(p.Head())
	if err != nil {
		return err
	}
	head := base64.StdEncoding.EncodeToString(data)
	var figures strings.Builder
	texts, errs := make([]string, len(p.Figures)), make([]error, len(p.Figures))
	parallel.For(len(texts), 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			texts[i], errs[i] = packed(p.Figures[i])
		}
	})
	for i, f := range p.Figures {
		if errs[i] != nil {
			return fmt.Errorf("figure %s: %w", f.Name, errs[i])
		}
		fmt.Fprintf(&figures, dataElement, "figure", texts[i])
	}
	title := html.EscapeString(visible(p.Title))
	_, err = fmt.Fprintf(w, frame, hashOf(pageScript()), hashOf(pageStyle()), title, pageStyle(), title,
		html.EscapeString(visible(p.Subtitle)), fmt.Sprintf(dataElement, "head", head), figures.String(), pageScript())
	return err
}

// dataElement is an element that a browser neither shows nor runs. Its content is base64, which cannot contain an end
// tag.
const dataElement = `<script type="application/octet-stream" class="%s">%s</script>
`

// frame is the page around styles, data and scripts. Its policy allows only the style and the script with the given
// hashes.
const frame = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '%s'; style-src '%s'; ` +
	`img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>%s</title>
<style>%s</style>
</head>
<body>
<div id="page"></div>
<div id="said" class="hidden" role="status" aria-live="polite"></div>
<noscript><main><h1>%s</h1><p>This page draws with JavaScript, which this browser does not run.</p>
<p>%s</p></main></noscript>
%s%s<script>%s</script>
</body>
</html>
`

// hashOf returns the hash of a text in the form of a Content-Security-Policy.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// entry describes a figure to the page's script before the figure is first shown.
type entry struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Group  string `json:"group,omitempty"`
	Pick   string `json:"pick,omitempty"`
	Frames int    `json:"frames"`
}

// Head is what a page's script needs to know before it reads a figure.
type Head struct {
	Title    string   `json:"title"`
	Subtitle string   `json:"subtitle"`
	Command  string   `json:"command"`
	Notes    []string `json:"notes"`
	Figures  []entry  `json:"figures"`
	Colors   colors   `json:"colors"`
}

// Head returns a description of the page without its numbers.
func (p *Page) Head() Head {
	h := Head{Title: p.Title, Subtitle: p.Subtitle, Command: p.Command, Notes: p.Notes, Colors: pageColors()}
	for _, f := range p.Figures {
		h.Figures = append(h.Figures, entry{f.Name, f.Title, f.Group, f.Pick, len(f.Frames)})
	}
	return h
}

// colors holds the colors of a page: [light, dark] if the two differ.
type colors struct {
	Lines      [2][]string `json:"lines"`
	Sequential [2][]string `json:"sequential"`
	Diverging  [2][]string `json:"diverging"`
}

func pageColors() colors {
	return colors{
		Lines:      [2][]string{hexes(lineColors), hexes(lineColorsDark)},
		Sequential: [2][]string{hexes(sequentialLight), hexes(sequentialDark)},
		Diverging:  [2][]string{hexes(divergingLight), hexes(divergingDark)},
	}
}

// asset returns a file of this package, or one that all pages share.
func asset(name string) string {
	data, err := assets.ReadFile("assets/" + name)
	if err != nil {
		data, err = web.Shared(name)
	}
	if err != nil {
		panic(err) // the assets are embedded in the program
	}
	return string(data)
}

// pageStyle returns all styles as one text.
var pageStyle = sync.OnceValue(func() string {
	var b strings.Builder
	for _, name := range styles {
		b.WriteString(asset(name))
	}
	return b.String()
})

// The statements by which the scripts form modules. Each is on its own line, at the start.
var (
	importing = regexp.MustCompile(`(?m)^import (\w+|\{[^}]*\}) from '\./([\w/]+)\.js';$`)
	exporting = regexp.MustCompile(`(?m)^export ((?:async )?function\*?|const|class|let) (\w+)`)
	byDefault = regexp.MustCompile(`(?m)^export \{ (\w+) as default \};$`)
)

// pageScript returns all scripts as one text. Each module becomes a function that is called at once and returns its
// exports. The files themselves stay modules, which a server can send unchanged. The license of included third-party
// code is part of the text.
var pageScript = sync.OnceValue(func() string {
	var b strings.Builder
	fmt.Fprintf(&b, "/* uPlot, a part of this script:\n\n%s*/\n'use strict';\n", asset("uplot/LICENSE"))
	for _, name := range scripts {
		var exports []string
		text := asset(name)
		if !strings.Contains(name, "/") { // libraries list their exports at the end
			text = exporting.ReplaceAllStringFunc(text, func(found string) string {
				parts := exporting.FindStringSubmatch(found)
				exports = append(exports, parts[2])
				return parts[1] + " " + parts[2]
			})
		}
		text = byDefault.ReplaceAllStringFunc(text, func(found string) string {
			exports = append(exports, "default: "+byDefault.FindStringSubmatch(found)[1])
			return ""
		})
		text = importing.ReplaceAllStringFunc(text, func(found string) string {
			parts := importing.FindStringSubmatch(found)
			names := strings.ReplaceAll(parts[1], " as ", ": ")
			if names[0] != '{' {
				names = "{ default: " + names + " }"
			}
			return "const " + names + " = " + moduleName(parts[2]) + ";"
		})
		fmt.Fprintf(&b, "const %s = (() => {\n%s\nreturn { %s };\n})();\n",
			moduleName(strings.TrimSuffix(name, ".js")), text, strings.Join(exports, ", "))
	}
	return b.String()
})

// moduleName returns the name of the variable with the exports of a module.
func moduleName(name string) string { return "module_" + strings.ReplaceAll(name, "/", "_") }
