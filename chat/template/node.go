package template

// stmt is a statement. Its method exec is in exec.go.
type stmt interface {
	exec(r *run) flow
}

// expr is an expression. Its method eval is in eval.go.
type expr interface {
	eval(r *run) value
}

// Statements.
type (
	textStmt  string
	printStmt struct {
		line int
		x    expr
	}
	ifStmt struct {
		line  int
		cases []ifCase
		other []stmt
	}
	ifCase struct {
		cond expr
		body []stmt
	}
	forStmt struct {
		line        int
		target      target
		over        expr
		cond        expr // nil if there is none
		recursive   bool
		body, other []stmt
	}
	setStmt struct {
		line   int
		target target
		x      expr
	}
	setBlockStmt struct {
		line    int
		target  target
		filters []*filterExpr // innermost first; their x is nil
		body    []stmt
	}
	macroStmt struct {
		line   int
		name   string
		params []param
		body   []stmt
	}
	callStmt struct {
		line   int
		call   *callExpr
		params []param // of the caller
		body   []stmt
	}
	filterStmt struct {
		line    int
		filters []*filterExpr
		body    []stmt
	}
	withStmt struct {
		line  int
		sets  []*setStmt
		body  []stmt
		plain bool // {% generation %}: no scope of its own
	}
	loopStmt flow // {% break %} and {% continue %}
)

// param is a parameter of a macro.
type param struct {
	name string
	def  expr // nil if there is none
}

// target is the target of an assignment: a name, an attribute of a namespace, or several targets.
type target struct {
	name, attr string
	parts      []target
}

// Expressions.
type (
	constExpr struct{ v value }
	nameExpr  string
	listExpr  struct {
		items []expr
		tuple bool
	}
	dictExpr struct{ keys, vals []expr }
	condExpr struct{ then, cond, other expr } // other may be nil
	boolExpr struct {
		and  bool
		a, b expr
	}
	notExpr  struct{ x expr }
	signExpr struct {
		minus bool
		x     expr
	}
	binaryExpr struct {
		op   string
		a, b expr
	}
	compareExpr struct {
		x    expr
		ops  []string
		with []expr
	}
	attrExpr struct {
		x    expr
		name string
	}
	indexExpr struct{ x, at expr }
	sliceExpr struct{ x, from, to, step expr } // nil if absent
	callExpr  struct {
		x    expr
		args argExprs
	}
	filterExpr struct {
		line int
		x    expr // nil in a filter block
		name string
		args argExprs
	}
	testExpr struct {
		x    expr
		name string
		not  bool
		args argExprs
	}
)

// argExprs holds the arguments of a call.
type argExprs struct {
	pos     []expr
	names   []string
	named   []expr
	spread  expr // *list; nil if there is none
	mapping expr // **mapping; nil if there is none
}
