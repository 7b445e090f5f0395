package constrain

import "testing"

// TestParts checks that a composed grammar accepts the texts of its parts one after another.
func TestParts(t *testing.T) {
	call := Sequence(Literal("<tool_call>"), Space(), Value("f", []byte(`{"type":"object","properties":{
		"n":{"$ref":"#/$defs/n"}},"required":["n"],"$defs":{"n":{"type":"integer"}}}`)), Space(),
		Literal("</tool_call>"))
	for name, c := range map[string]struct {
		part    Part
		yes, no []string
	}{
		"call": {Sequence(Until("</think>", false), Many(call, Literal("\n"))), []string{
			`</think><tool_call>{"n":1}</tool_call>`,
			"a < b </th</think><tool_call>\n{\"n\": 1}\n</tool_call>\n<tool_call>{\"n\":2}</tool_call>",
		}, []string{``, `<tool_call>{"n":1}</tool_call>`, `</think></think><tool_call>{"n":1}</tool_call>`,
			"</think><tool_call>{}</tool_call>"}},
		"perhaps a call": {Sequence(Until("<tool_call>", true), Literal("x")),
			[]string{``, `a <tool_cal`, `é<tool_call>x`, `<<tool_call>x`}, []string{`<tool_call>`, `<tool_call>y`}},
		"arguments": {Sequence(Literal("f("), Arguments("f", []byte(`{"type":"object","properties":{
			"a":{"type":"integer"},
			"b":{"type":"string"},"c":{"type":"boolean"}},"required":["b"]}`)), Literal(")")),
			[]string{`f(a=1, b="x")`, `f(b="", c=true)`}, []string{`f()`, `f(a=1)`, `f(b="",a=1)`, `f(, b="")`}},
		"tagged": {Sequence(Tagged("f", []byte(`{"type":"object","properties":{"a":{"type":"string"},
			"b":{"type":"array","items":{"type":"string"}},"c":{"type":"string","enum":["x","y"]},
			"d":{"type":"string","pattern":"^[a-c<>/]+.?$","minLength":3}},"required":["c"]}`), "</",
			func(name string) (string, string) { return "<" + name + ">", "</>" }), Literal("!")), []string{
			"<c>x</>!", `<a>"<b </><b>["é"]</><c>y</>!`, "<a></><c>x</>!", "<c>x</><d>a<bé</>!",
		}, []string{"!", "<c>z</>!", "<b>x</><c>x</>!", "<a>x</>!", "<c>x</><d>ab</>!",
			"<c>x</><d>ab</a</>!", "<c>x</><d>ab\r</>!", "<a>x</y</><c>x</>!"}},
		"either": {Either(Literal("a"), Literal("b")), []string{"a", "b"}, []string{"", "ab"}},
	} {
		g, err := Compile(c.part)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range c.yes {
			if !accepts(t, g, text) {
				t.Errorf("%s: %q is not taken", name, text)
			}
		}
		for _, text := range c.no {
			if accepts(t, g, text) {
				t.Errorf("%s: %q is taken", name, text)
			}
		}
	}
}
