package explain

import "github.com/hippo-ssm/hippo/explain/figure"

// Chart is a picture of lines in one style, as a PNG file: see package figure, which draws all pictures.
type Chart = figure.Chart

// Line is one line of a chart.
type Line = figure.Line
