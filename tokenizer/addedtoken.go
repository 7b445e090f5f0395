package tokenizer

// hfAdded is an added token, as a tokenizer.json describes it: a text that is found before anything else. It is not
// empty.
type hfAdded struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// hasFlags tells whether the token takes or needs something beside it.
func (a hfAdded) hasFlags() bool { return a.SingleWord || a.LStrip || a.RStrip }

// endNames are the names of the token that ends a document, in order of preference: GPT-2's and GPT-NeoX's, Llama
// 3's, and older ones.
var endNames = []string{EndOfTextToken, "<|end_of_text|>", "</s>", "<eos>"}

// endOfText is the token of one of endNames or, where none is among the added ones, end, nil for none.
func endOfText(added []hfAdded, end *int32) (int32, bool) {
	for _, name := range endNames {
		for _, a := range added {
			if a.Content == name {
				return a.ID, true
			}
		}
	}
	if end == nil {
		return 0, false
	}
	return *end, true
}
