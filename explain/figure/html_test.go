package figure

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
)

// htmlOf is a page as one file.
func htmlOf(t *testing.T, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// between is what stands between two texts of a page.
func between(t *testing.T, page, start, end string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, start)
	inside, _, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("found no %q with %q behind it", start, end)
	}
	return inside
}

// TestPolicyNamesWhatThePageHas: the policy has the hashes of the one style and the one script, and lets in nothing
// else; the page asks for nothing, and nothing of its texts stands in it as markup.
func TestPolicyNamesWhatThePageHas(t *testing.T) {
	const hostile = `</script></title><script>alert(1)</script><img src=x onerror=alert(1)>`
	p := of(Panel{Title: hostile,
		Text: &Text{Tokens: []string{hostile, "<!--"}, Mark: -1, Notes: []string{hostile, hostile}}})
	p.Title, p.Subtitle, p.Command, p.Notes = hostile, hostile, hostile, []string{hostile}
	page := htmlOf(t, p)
	policy := between(t, page, `http-equiv="Content-Security-Policy" content="`, `"`)
	for directive, inside := range map[string]string{
		"script-src": between(t, page, "<script>", "</script>"), "style-src": between(t, page, "<style>", "</style>"),
	} {
		sum := sha256.Sum256([]byte(inside))
		want := directive + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"
		if !strings.Contains(policy, want) {
			t.Errorf("found the policy %s, want %s", policy, want)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") {
		t.Errorf("found the policy %s", policy)
	}
	if n := strings.Count(page, "<script"); n != 3 { // the head, one figure, the code
		t.Errorf("found %d scripts, want 3", n)
	}
	if strings.Contains(page, "alert(1)>") || strings.Contains(page, "<img") {
		t.Error("a text stands in the page as markup")
	}
	asking := regexp.MustCompile(`(?i)(?:src|href)\s*=\s*["'](?:https?:)?//|@import|url\(["']?h`)
	if found := asking.FindString(page); found != "" {
		t.Errorf("the page asks for %q", found)
	}
}

// TestScriptIsOne: of the modules nothing is left that only a module may have, what they import is there, and each is
// in the script once.
func TestScriptIsOne(t *testing.T) {
	text := pageScript()
	found := regexp.MustCompile(`(?m)^(import|export)\b.*$`).FindAllString(text, -1)
	if len(found) > 1 { // one is in a comment
		t.Errorf("found %q", found)
	}
	if strings.Contains(text, "</script") || strings.Contains(text, "<!--") {
		t.Error("the script ends its element")
	}
	for _, found := range regexp.MustCompile(`(?m)^const (\{[^}]*\}) = (module_\w+);`).FindAllStringSubmatch(text, -1) {
		_, body, ok := strings.Cut(text, "const "+found[2]+" = (() => {")
		if !ok || strings.Count(text, "const "+found[2]+" = (") != 1 {
			t.Fatalf("there is not one %s", found[2])
		}
		_, exports, _ := strings.Cut(body, "\nreturn {")
		exports, _, _ = strings.Cut(exports, "}")
		for name := range strings.SplitSeq(strings.Trim(found[1], "{ }"), ",") {
			name, _, _ = strings.Cut(strings.TrimSpace(name), ":")
			if !regexp.MustCompile(`\b` + name + `\b`).MatchString(exports) {
				t.Errorf("%s exports %s, and not %s", found[2], exports, name)
			}
		}
	}
	if !strings.Contains(text, "MIT License") {
		t.Error("the license of uPlot is not with it")
	}
}

// TestScriptsMakeNoMarkup: no script of this package makes markup or code of texts, or asks another place for anything,
// and each can be read at one sitting.
func TestScriptsMakeNoMarkup(t *testing.T) {
	entries, err := assets.ReadDir("assets")
	if err != nil || len(entries) < 10 {
		t.Fatalf("found %d assets (%v)", len(entries), err)
	}
	inside := regexp.MustCompile(`(?i)<style|\sstyle=|\son\w+=["']|<script(?:>| [^>]*>[^<])|innerHTML|outerHTML|` +
		`insertAdjacentHTML|document\.write|eval\(|new Function|https?://`)
	for _, e := range entries {
		text := asset(e.Name())
		if found := inside.FindString(text); found != "" {
			t.Errorf("%s has %q", e.Name(), found)
		}
		if lines := strings.Count(text, "\n"); lines > 400 {
			t.Errorf("%s has %d lines, want at most 400", e.Name(), lines)
		}
		used := Live()["/assets/"+e.Name()] != nil && (e.Name() == "live.js" ||
			strings.Contains(asset("live.js"), "'./"+e.Name()+"'")) ||
			strings.Contains(strings.Join(scripts, " "), e.Name())
		if strings.HasSuffix(e.Name(), ".js") && !used {
			t.Errorf("%s is in no page", e.Name())
		}
	}
}

// TestLivePageIsWhole: all that the scripts of the page of a session import is there without another page.
func TestLivePageIsWhole(t *testing.T) {
	importing, seen := regexp.MustCompile(`from '\./([\w/]+\.js)'`), map[string]bool{}
	for todo := []string{"live.js"}; len(todo) > 0; todo = todo[1:] {
		name := todo[0]
		if seen[name] {
			continue
		}
		if seen[name] = true; Live()["/assets/"+name] == nil {
			t.Errorf("found no %s", name)
			continue
		}
		for _, found := range importing.FindAllStringSubmatch(asset(name), -1) {
			todo = append(todo, found[1])
		}
	}
	if len(seen) < 10 {
		t.Errorf("found %d scripts", len(seen))
	}
}

// unpack reads a packed figure as the page's script does.
func unpack(t *testing.T, text string) (header map[string]any, rest []byte) {
	t.Helper()
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	n := int(binary.LittleEndian.Uint32(data))
	if (4+n)%8 != 0 {
		t.Errorf("numbers begin at %d, want a multiple of 8", 4+n)
	}
	if err := json.Unmarshal(data[4:4+n], &header); err != nil {
		t.Fatal(err)
	}
	return header, data[4+n:]
}

// TestPackedNumbers: long lists lie behind the JSON as float32, those that need it as float64, short ones in the JSON,
// and what is empty is left out.
func TestPackedNumbers(t *testing.T) {
	long := make(Floats, 20)
	for i := range long {
		long[i] = float64(i) + .1
	}
	long[3] = math.NaN()
	wide := append(Floats{1e-300}, long...)
	text, err := packed(of(Panel{Lines: &Lines{Series: []Series{{Name: "half\xe2", X: long, Y: wide[:20],
		Low: Floats{1, math.Inf(1)}}}}}).Figures[0])
	if err != nil {
		t.Fatal(err)
	}
	header, rest := unpack(t, text)
	panel := header["frames"].([]any)[0].(map[string]any)["panels"].([]any)[0].(map[string]any)
	series := panel["lines"].(map[string]any)["series"].([]any)[0].(map[string]any)
	x, y := series["x"].(map[string]any), series["y"].(map[string]any)
	if x["kind"] != "f4" || y["kind"] != "f8" || x["count"] != 20.0 || y["count"] != 20.0 {
		t.Fatalf("found %v and %v, want 20 numbers of 4 and of 8 bytes", x, y)
	}
	for i, want := range long {
		got := math.Float32frombits(binary.LittleEndian.Uint32(rest[int(x["at"].(float64))+4*i:]))
		if got != float32(want) && !math.IsNaN(want) {
			t.Errorf("x[%d]: found %g, want %g", i, got, want)
		}
	}
	if got := math.Float64frombits(binary.LittleEndian.Uint64(rest[int(y["at"].(float64)):])); got != 1e-300 {
		t.Errorf("found %g, want 1e-300", got)
	}
	if low := series["low"].([]any); low[0] != 1.0 || low[1] != nil {
		t.Errorf("found %v, want 1 and nothing", low)
	}
	if series["name"] != `half\xe2` || series["high"] != nil || panel["square"] != nil {
		t.Errorf("found %v", series)
	}
}

// TestPackedLikeJSON: a packed figure says what JSON says of it, but for the long lists.
func TestPackedLikeJSON(t *testing.T) {
	f := of(Panel{Title: "t", X: Axis{Label: "x", Log: true}, Square: true, Map: &Map{Rows: 1, Cols: 2,
		Values: Floats{1, 2}, ColNames: []string{"a", "b"}, RowClick: "r"}}).Figures[0]
	f.Frames[0].Panels = append(f.Frames[0].Panels, Panel{Text: &Text{Tokens: []string{"a"}, Mark: 0}},
		Panel{Diagram: &Diagram{Nodes: []Node{{ID: "n"}, {ID: "m"}}, Edges: []Edge{{From: "n", To: "m", Label: "e"}}}})
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	text, err := packed(f)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := unpack(t, text)
	a, errA := json.Marshal(got)
	b, errB := json.Marshal(want)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("found %s, want %s", a, b)
	}
}

// TestScale: the ends of each kind of scale have the colors at the ends, and 0 of a diverging one that in the middle.
func TestScale(t *testing.T) {
	for _, c := range []struct {
		values         Floats
		lo, hi         float64
		log, diverging bool
		at             map[float64]int // index of a stop
	}{
		{values: Floats{2, 4, math.NaN()}, at: map[float64]int{2: 0, 3: 4, 4: 8, 100: 8}},
		{values: Floats{3, 3}, at: map[float64]int{0: 0, 3: 8}},
		{values: Floats{}, at: map[float64]int{0: 0, 1: 8}},
		{values: Floats{1, -3}, diverging: true, at: map[float64]int{-3: 0, 0: 4, 3: 8, -1.5: 2}},
		{values: Floats{0, 1, 1e4}, log: true, at: map[float64]int{0: 0, 1: 0, 100: 4, 1e4: 8}},
		{values: Floats{1e-9, 1}, log: true, at: map[float64]int{1e-9: 0, 1e-3: 4, 1: 8}},
		{values: Floats{9}, lo: 0, hi: 2, at: map[float64]int{0: 0, 1: 4, 2: 8, math.Inf(1): 8, math.Inf(-1): 0}},
		{values: Floats{1e300, -1e300}, at: map[float64]int{0: 0}},
	} {
		s := newScale(c.values, c.lo, c.hi, c.log, c.diverging)
		for v, want := range c.at {
			if got := s.at(v); got != s.stops[want] {
				t.Errorf("%+v: found %v for %g, want %v", c, got, v, s.stops[want])
			}
		}
		if s.at(math.NaN()) != emptyColor {
			t.Errorf("%+v: NaN has a color", c)
		}
	}
}

// TestScalesGrowInLightness: by lightness alone, as in gray, neighbors of a scale can be told apart in one order, from
// one end to the other or from the middle to both.
func TestScalesGrowInLightness(t *testing.T) {
	light := func(i int, scale scale) float64 {
		c := mix(scale.stops, float64(i)/64)
		return .2126*float64(c.R) + .7152*float64(c.G) + .0722*float64(c.B)
	}
	for name, c := range map[string]struct {
		scale scale
		first int // of 64
		sign  float64
	}{
		"sequential, light": {scale{stops: sequentialLight}, 0, -1},
		"sequential, dark":  {scale{stops: sequentialDark}, 0, 1},
		"diverging, light":  {scale{stops: divergingLight}, 32, -1},
		"diverging, dark":   {scale{stops: divergingDark}, 32, 1},
	} {
		for i := c.first; i < 64; i++ {
			if (light(i+1, c.scale)-light(i, c.scale))*c.sign <= 0 {
				t.Errorf("%s: step %d does not grow", name, i)
			}
			if c.first > 0 && (light(63-i, c.scale)-light(64-i, c.scale))*c.sign <= 0 {
				t.Errorf("%s: step %d does not grow", name, 63-i)
			}
		}
	}
}
