package lens

import (
	"fmt"
	"strings"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Figures draws the report.
func (r *ChangeReport) Figures(tok tokenizer.Tokenizer) []*figure.Figure {
	what := strings.Join(r.Labels, "; ")
	figures := []*figure.Figure{{Name: "change-next", Title: "What comes after the text, before and after the change",
		Caption: fmt.Sprintf("%s. KL(before ‖ after) is %.4g nats.", what, r.KL), Columns: 1,
		Frames: []figure.Frame{{Panels: explain.Beside(tok, []string{"before", "after"}, r.Watched, r.NextBefore,
			r.NextAfter)}}}}
	if len(r.Before) == 0 {
		return figures
	}
	text, more := explain.ChangedText(tok, r.IDs, r.Before, r.After, "before", "after")
	return append(figures, &figure.Figure{Name: "change-text", Title: "Log-probability of each token: after - before",
		Caption: fmt.Sprintf("%s. Tokens below 0 are less probable with the change. The mean is %.4g nats a token.%s",
			what, explain.MeanOf(r.After)-explain.MeanOf(r.Before), more),
		Frames: []figure.Frame{{Panels: []figure.Panel{{Text: text}}}}})
}
