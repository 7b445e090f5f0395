// Package figure has pictures as data: what an explanation shows, before anybody draws it. Page is what one command or
// one view makes. The same page is written as one HTML file, as PNG and SVG, and as JSON and NPZ. It knows nothing of
// models.
//
// A figure is made of panels, side by side or below each other, and each panel shows one thing: lines, a map, bars,
// tokens, a diagram or a table. What is shown over time, or layer by layer, is a figure with several frames.
package figure

// Page is a title and figures in the order in which they are read.
type Page struct {
	Title    string `json:"title"`
	Subtitle string `json:"subtitle,omitempty"` // the model, the text, the seed
	// Command is the command line that makes the page again.
	Command string    `json:"command,omitempty"`
	Notes   []string  `json:"notes,omitempty"` // what a reader must know: what was summarized or left out, and why
	Figures []*Figure `json:"figures"`
}

// Figure is one picture, or a sequence of pictures of one form.
type Figure struct {
	// Name is unique on a page: a file name and the part of a link after #, in lower case with hyphens.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Caption says what is seen and by which formula, in plain English.
	Caption string `json:"caption,omitempty"`
	Source  string `json:"source,omitempty"` // the paper and the place in it
	// Group gathers figures of one kind, of which the page shows one at a time: "influence" with a figure for each
	// layer. Pick is the name of this one among them, such as "layer 3 · h3".
	Group string `json:"group,omitempty"`
	Pick  string `json:"pick,omitempty"`
	// Frames are what the figure shows: one for a still picture. Several are played through in order, all of them with
	// panels of the same kinds and axes.
	Frames []Frame `json:"frames"`
	// Columns is how many panels stand side by side on a wide page, 0 for as many as fit.
	Columns int `json:"columns,omitempty"`
}

// Frame is the panels at one moment.
type Frame struct {
	Label  string  `json:"label,omitempty"` // such as "token 17 · whale"
	Panels []Panel `json:"panels"`
}

// Panel shows exactly one of its kinds.
type Panel struct {
	Title string `json:"title,omitempty"`
	X     Axis   `json:"x,omitzero"`
	Y     Axis   `json:"y,omitzero"`
	// Square gives x and y the same scale, as poles in a plane need.
	Square bool `json:"square,omitempty"`

	Lines   *Lines   `json:"lines,omitempty"`
	Map     *Map     `json:"map,omitempty"`
	Bars    *Bars    `json:"bars,omitempty"`
	Text    *Text    `json:"text,omitempty"`
	Diagram *Diagram `json:"diagram,omitempty"`
	Table   *Table   `json:"table,omitempty"`
}

// Axis names an axis. Min and Max are the ends that are shown, those of the data where both are 0.
type Axis struct {
	Label string  `json:"label,omitempty"` // with its unit
	Log   bool    `json:"log,omitempty"`
	Min   float64 `json:"min,omitempty"`
	Max   float64 `json:"max,omitempty"`
}

// Lines are curves, clouds of points and bands over one pair of axes.
type Lines struct {
	Series []Series `json:"series"`
	// Circle draws the unit circle, the border of stability of discrete systems.
	Circle bool `json:"circle,omitempty"`
	// At are vertical lines, such as the present.
	At []float64 `json:"at,omitempty"`
}

// Series is a line through points in order. A NaN leaves a gap.
type Series struct {
	Name string `json:"name"`
	X    Floats `json:"x"`
	Y    Floats `json:"y"`
	// Low and High are the borders of a band around the line; empty for none.
	Low  Floats `json:"low,omitempty"`
	High Floats `json:"high,omitempty"`
	// Points draws markers and no line.
	Points bool `json:"points,omitempty"`
	Steps  bool `json:"steps,omitempty"` // keeps a value until the next
	Dashed bool `json:"dashed,omitempty"`
	// Labels are shown when the reader points at a point; empty, or one for each.
	Labels []string `json:"labels,omitempty"`
}

// Map is a matrix in colors. Row 0 is at the top.
type Map struct {
	Rows   int    `json:"rows"`
	Cols   int    `json:"cols"`
	Values Floats `json:"values"` // (rows, cols); NaN is empty
	// Diverging maps have a color for each sign and none at 0. Others go from none at Min to full at Max.
	Diverging bool    `json:"diverging,omitempty"`
	Log       bool    `json:"log,omitempty"` // color by the logarithm of the size
	Min       float64 `json:"min,omitempty"` // the ends of the color scale, those of the data where both are 0
	Max       float64 `json:"max,omitempty"`
	Unit      string  `json:"unit,omitempty"` // of the values
	// RowNames and ColNames are shown on the axes and when the reader points at a cell; empty, or one for each.
	RowNames []string `json:"row_names,omitempty"`
	ColNames []string `json:"col_names,omitempty"`
	// Notes are shown when the reader points at a cell; empty, or one for each, row by row.
	Notes []string `json:"notes,omitempty"`
	// RowStep and ColStep are how many rows and columns of the full matrix a cell sums up, 0 and 1 for one.
	RowStep int `json:"row_step,omitempty"`
	ColStep int `json:"col_step,omitempty"`
	// RowClick, if set, is what the page shows of a row that is clicked: the row as values of tokens, ColNames.
	RowClick string `json:"row_click,omitempty"`
}

// Bars are values by name, side by side for several series.
type Bars struct {
	Names  []string `json:"names"`
	Series []Series `json:"series"`            // Y alone, one value for each name
	Across bool     `json:"across,omitempty"`  // bars lie, for long names
	Stack  bool     `json:"stacked,omitempty"` // series stand on each other
}

// Text is tokens in reading order, each with a value as its background.
type Text struct {
	Tokens []string `json:"tokens"`
	Values Floats   `json:"values"`
	// Notes are shown when the reader points at a token; empty, or one for each.
	Notes     []string `json:"notes,omitempty"`
	Diverging bool     `json:"diverging,omitempty"`
	Min       float64  `json:"min,omitempty"`
	Max       float64  `json:"max,omitempty"`
	Unit      string   `json:"unit,omitempty"`
	// Mark is the index of the token that the values are about, -1 for none.
	Mark int `json:"mark"`
	// Links, if it is set, has the values of all tokens for each token that the reader may pick: (tokens, tokens).
	Links *Map `json:"links,omitempty"`
}

// Diagram is boxes and arrows, such as an architecture or a tree of partial results.
type Diagram struct {
	Nodes []Node `json:"nodes"`
	Edges []Edge `json:"edges"`
}

// Node is a box. X and Y are its center in units of a box's width and height, Y down.
type Node struct {
	ID    string  `json:"id"`
	Label string  `json:"label"` // lines are divided by \n
	Note  string  `json:"note,omitempty"`
	X     float64 `json:"x"`
	Y     float64 `json:"y"`
	// Kind gives boxes of one kind one color: "mixer", "mlp", "norm", ...
	Kind string `json:"kind,omitempty"`
}

// Edge is an arrow between two nodes.
type Edge struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Label string `json:"label,omitempty"`
}

// Table is rows of text. Numbers stand to the right.
type Table struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}
