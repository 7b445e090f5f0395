package theory

import (
	"context"

	"github.com/hippo-ssm/hippo/explain/figure"
)

// View is one explanation.
type View struct {
	Name  string // of one word
	Short string // in one line
	// Long says what is shown, by which formula, from which source. Example has command lines.
	Long, Example string
	// New returns options with their defaults: a pointer to a struct with the tags of package config. It may also be a
	// [WithSignal] and a [WithText].
	New func() Options
}

// Options make the page of a view. An option that is out of range or does not fit the others is an error.
type Options interface {
	Page(ctx context.Context) (*figure.Page, error)
}

// WithSignal are options of a view that shows a signal passing.
type WithSignal interface {
	Options
	Input() *SignalOptions
}

// WithText are options of a view that is about a text which the user may give.
type WithText interface {
	Options
	SetText(text string)
}

// Views lists the explanations in the order of the course.
func Views() []View {
	return []View{
		convolutionView, diceView, transformsView, basesView, springView, discretizeView, hippoView, s4View,
		diagonalView, piecesView, shiftView, recallView, selectiveView, scanView,
	}
}
