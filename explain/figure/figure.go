// Package figure represents pictures as data: the content of an explanation before it is drawn. A Page is the output of
// one command or one view. It can be written as one HTML file, as PNG and SVG, and as JSON and NPZ. The package is
// independent of models.
//
// A figure consists of panels, side by side or one below the other. Each panel shows one thing: lines, a map, bars,
// tokens, a diagram or a table. A figure with several frames shows something over time, or layer by layer.
package figure

// Page is a title and figures in reading order.
type Page struct {
	Title    string `json:"title"`
	Subtitle string `json:"subtitle,omitempty"` // the model, the text, the seed
	// Command is the command line that produces the page.
	Command string    `json:"command,omitempty"`
	Notes   []string  `json:"notes,omitempty"` // what a reader must know: what was summarized or omitted, and why
	Figures []*Figure `json:"figures"`
}

// Figure is one picture, or a sequence of pictures of the same form.
type Figure struct {
	// Name is unique on a page. It is used as a file name and as the fragment of links, in lower case with hyphens.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Caption explains what is shown and by which formula, in plain English.
	Caption string `json:"caption,omitempty"`
	Source  string `json:"source,omitempty"` // the paper and the section or equation
	// Group is the name of a group of similar figures, of which the page shows one at a time, such as "influence" with
	// a figure for each layer. Pick is the name of this figure in the group, such as "layer 3 · h3".
	Group string `json:"group,omitempty"`
	Pick  string `json:"pick,omitempty"`
	// Frames contains one frame for a still picture, or several that are played in order. All have panels of the same
	// kinds and axes.
	Frames []Frame `json:"frames"`
	// Columns is the number of panels side by side on a wide page, 0 for as many as fit.
	Columns int `json:"columns,omitempty"`
}

// Frame holds the panels at one moment.
type Frame struct {
	Label  string  `json:"label,omitempty"` // such as "token 17 · whale"
	Panels []Panel `json:"panels"`
}

// Panel shows one of its kinds. Exactly one must be set.
type Panel struct {
	Title string `json:"title,omitempty"`
	X     Axis   `json:"x,omitzero"`
	Y     Axis   `json:"y,omitzero"`
	// Square gives x and y the same scale, which is needed for poles in a plane.
	Square bool `json:"square,omitempty"`

	Lines   *Lines   `json:"lines,omitempty"`
	Map     *Map     `json:"map,omitempty"`
	Bars    *Bars    `json:"bars,omitempty"`
	Text    *Text    `json:"text,omitempty"`
	Diagram *Diagram `json:"diagram,omitempty"`
	Table   *Table   `json:"table,omitempty"`
}

// Axis describes an axis. Min and Max are its ends. If both are 0, the ends are those of the data.
type Axis struct {
	Label string  `json:"label,omitempty"` // including the unit
	Log   bool    `json:"log,omitempty"`
	Min   float64 `json:"min,omitempty"`
	Max   float64 `json:"max,omitempty"`
}

// Lines is a panel of curves, clouds of points and bands over one pair of axes.
type Lines struct {
	Series []Series `json:"series"`
	// Circle draws the unit circle, the border of stability of discrete systems.
	Circle bool `json:"circle,omitempty"`
	// At contains the positions of vertical lines, such as the present.
	At []float64 `json:"at,omitempty"`
}

// Series is a line through points in order. NaN leaves a gap.
type Series struct {
	Name string `json:"name"`
	X    Floats `json:"x"`
	Y    Floats `json:"y"`
	// Low and High are the borders of a band around the line. They are empty for none.
	Low  Floats `json:"low,omitempty"`
	High Floats `json:"high,omitempty"`
	// Points draws markers and no line.
	Points bool `json:"points,omitempty"`
	Steps  bool `json:"steps,omitempty"` // keeps a value until the next
	Dashed bool `json:"dashed,omitempty"`
	// Labels are shown when the pointer is over a point. Labels is empty, or has one label for each point.
	Labels []string `json:"labels,omitempty"`
}

// Map is a matrix in colors. Row 0 is at the top.
type Map struct {
	Rows   int    `json:"rows"`
	Cols   int    `json:"cols"`
	Values Floats `json:"values"` // (rows, cols); NaN is empty
	// Diverging selects a scale with a color for each sign and none at 0. The other scale goes from none at Min to full
	// at Max.
	Diverging bool    `json:"diverging,omitempty"`
	Log       bool    `json:"log,omitempty"` // color by the logarithm of the magnitude
	Min       float64 `json:"min,omitempty"` // the ends of the color scale; if both are 0, those of the data
	Max       float64 `json:"max,omitempty"`
	Unit      string  `json:"unit,omitempty"` // unit of the values
	// RowNames and ColNames are shown on the axes and when the pointer is over a cell. They are empty, or have one name
	// for each row or column.
	RowNames []string `json:"row_names,omitempty"`
	ColNames []string `json:"col_names,omitempty"`
	// Notes are shown when the pointer is over a cell. Notes is empty, or has one note for each cell, row by row.
	Notes []string `json:"notes,omitempty"`
	// RowStep and ColStep are the numbers of rows and columns of the full matrix that a cell combines. 0 and 1 mean
	// one.
	RowStep int `json:"row_step,omitempty"`
	ColStep int `json:"col_step,omitempty"`
	// RowClick, if set, is the title of what the page shows when a row is clicked: the row as values of the tokens
	// ColNames.
	RowClick string `json:"row_click,omitempty"`
}

// Bars shows values by name, with the bars of several series side by side.
type Bars struct {
	Names  []string `json:"names"`
	Series []Series `json:"series"`            // only Y, one value for each name
	Across bool     `json:"across,omitempty"`  // horizontal bars, for long names
	Stack  bool     `json:"stacked,omitempty"` // stacked series
}

// Text shows tokens in reading order, each with its value as background color.
type Text struct {
	Tokens []string `json:"tokens"`
	Values Floats   `json:"values"`
	// Notes are shown when the pointer is over a token. Notes is empty, or has one note for each token.
	Notes     []string `json:"notes,omitempty"`
	Diverging bool     `json:"diverging,omitempty"`
	Min       float64  `json:"min,omitempty"`
	Max       float64  `json:"max,omitempty"`
	Unit      string   `json:"unit,omitempty"`
	// Mark is the index of the token that the values are about, -1 for none.
	Mark int `json:"mark"`
	// Links, if set, has the values of all tokens for each token that the reader may select: (tokens, tokens).
	Links *Map `json:"links,omitempty"`
}

// Diagram shows boxes and arrows, such as an architecture or a tree of partial results.
type Diagram struct {
	Nodes []Node `json:"nodes"`
	Edges []Edge `json:"edges"`
}

// Node is a box. X and Y are its center in units of a box's width and height. Y points down.
type Node struct {
	ID    string  `json:"id"`
	Label string  `json:"label"` // lines are separated by \n
	Note  string  `json:"note,omitempty"`
	X     float64 `json:"x"`
	Y     float64 `json:"y"`
	// Kind is the kind of box, such as "mixer", "mlp" or "norm". Boxes of one kind have one color.
	Kind string `json:"kind,omitempty"`
}

// Edge is an arrow between two nodes.
type Edge struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Label string `json:"label,omitempty"`
}

// Table shows rows of text. Numbers are aligned to the right.
type Table struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}
