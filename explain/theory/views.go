package theory

import (
	"context"

	"github.com/hippo-ssm/hippo/explain/figure"
)

// View is one explanation.
type View struct {
	Name  string // one word
	Short string // one line
	// Long describes what is shown, by which formula, from which source. Example contains command lines.
	Long, Example string
	// New returns options with their defaults: a pointer to a struct with the tags of package config. It may also
	// implement [WithSignal] and [WithText].
	New func() Options
}

// Options makes the page of a view. Page returns an error if an option is out of range or inconsistent with others.
type Options interface {
	Page(ctx context.Context) (*figure.Page, error)
}

// WithSignal is implemented by the options of views that show a signal.
type WithSignal interface {
	Options
	Input() *SignalOptions
}

// WithText is implemented by the options of views about a text that the user may give.
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
