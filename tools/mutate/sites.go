package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// site is a place in the code with one or more mutants. Its edits insert a call of a helper of helpers.go.txt, with the
// number of the site's first mutant.
type site struct {
	from, to int // offsets
	line     int
	file     *source
	function string
	code     string // hash of the function
	edits    []edit
	texts    []string // descriptions of the mutants
	first    int      // number of the first mutant
}

// finder collects the sites of a file in the order of its syntax tree, parents first.
type finder struct {
	fset     *token.FileSet
	info     *types.Info
	pkg      *types.Package
	file     *source
	function string
	code     string
	sites    []*site
}

func (f *finder) offset(p token.Pos) int { return f.fset.Position(p).Offset }

// text returns the source of a node on one line, shortened if it is long.
func (f *finder) text(n ast.Node) string {
	s := strings.Join(strings.Fields(string(f.file.text[f.offset(n.Pos()):f.offset(n.End())])), " ")
	if r := []rune(s); len(r) > 100 {
		s = string(r[:60]) + " … " + string(r[len(r)-37:])
	}
	return s
}

// add adds a site at a node. texts describes its mutants, and edits inserts them.
func (f *finder) add(n ast.Node, texts []string, edits ...edit) {
	s := &site{from: f.offset(n.Pos()), to: f.offset(n.End()), line: f.fset.Position(n.Pos()).Line, file: f.file,
		function: f.function, code: f.code, edits: edits}
	for _, t := range texts {
		s.texts = append(s.texts, f.text(n)+" → "+t)
	}
	f.sites = append(f.sites, s)
}

// around returns the edits that put text before and after a node.
func (f *finder) around(n ast.Node, before, after string) []edit {
	return []edit{{at: f.offset(n.Pos()), text: before}, {at: f.offset(n.End()), text: after, close: true}}
}

// operators holds the helpers of binary operations: their names and mutants, where a and b are the operands.
var operators = map[token.Token]struct {
	helper string
	floats []string // mutants of floating-point and complex numbers
	ints   []string // mutants of integers, at most as many
}{
	token.ADD: {"_mAdd", []string{"a - b", "a", "b"}, []string{"a - b", "a"}},
	token.SUB: {"_mSub", []string{"a + b", "a", "-b"}, []string{"a + b", "a"}},
	token.MUL: {"_mMul", []string{"a / b", "a", "b"}, []string{"a / b", "a"}},
	token.QUO: {"_mQuo", []string{"a * b", "a"}, []string{"a * b", "a"}},
	token.REM: {"_mRem", nil, []string{"a * b", "a"}},
	token.AND: {"_mBitAnd", nil, []string{"a | b"}},
	token.OR:  {"_mBitOr", nil, []string{"a & b"}},
	token.XOR: {"_mBitXor", nil, []string{"a & b"}},
	token.SHL: {"_mShl", nil, []string{"a >> b"}},
	token.SHR: {"_mShr", nil, []string{"a << b"}},
	token.LSS: {"_mLess", []string{"a <= b", "a >= b"}, []string{"a <= b", "a >= b"}},
	token.LEQ: {"_mLeq", []string{"a < b", "a > b"}, []string{"a < b", "a > b"}},
	token.GTR: {"_mMore", []string{"a >= b", "a <= b"}, []string{"a >= b", "a <= b"}},
	token.GEQ: {"_mMeq", []string{"a > b", "a < b"}, []string{"a > b", "a < b"}},
}

// kind returns the kind of number that an expression is: types.IsInteger, types.IsFloat, types.IsComplex or 0.
func (f *finder) kind(e ast.Expr) types.BasicInfo {
	t := f.info.TypeOf(e)
	if t == nil {
		return 0
	}
	if p, ok := t.(*types.TypeParam); ok { // type parameters for several kinds count as floats
		if u, ok := p.Constraint().Underlying().(*types.Interface); ok && u.NumEmbeddeds() > 0 {
			return types.IsFloat
		}
		return 0
	}
	b, ok := t.Underlying().(*types.Basic)
	if !ok {
		return 0
	}
	return b.Info() & types.IsNumeric
}

func (f *finder) isBool(e ast.Expr) bool {
	t := f.info.TypeOf(e)
	b, ok := cmp.Or[types.Type](t, types.Typ[types.Invalid]).Underlying().(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

// constant reports whether an expression is a constant. Mutants change only its value as a whole, not its parts.
func (f *finder) constant(e ast.Expr) bool { return f.info.Types[e].Value != nil }

// typeName returns the name of an expression's type as its file writes it.
func (f *finder) typeName(e ast.Expr) string {
	return types.TypeString(types.Default(f.info.TypeOf(e)), func(p *types.Package) string {
		if p == f.pkg {
			return ""
		}
		return p.Name()
	})
}

// walk visits a node and its parts.
func (f *finder) walk(root ast.Node) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			f.function, f.code = n.Name.Name, hash(f.file.text[f.offset(n.Pos()):f.offset(n.End())])
			if n.Recv != nil && len(n.Recv.List) == 1 {
				f.function = strings.Trim(f.text(n.Recv.List[0].Type), "*") + "." + f.function
			}
			if n.Body != nil {
				f.walk(n.Body)
			}
			f.function, f.code = "", ""
			return false
		case *ast.GenDecl:
			if n.Tok != token.VAR {
				return false
			}
		case *ast.ArrayType: // its length must be a constant
			return false
		case *ast.StructType, *ast.InterfaceType, *ast.FuncType, *ast.ImportSpec:
			return false
		case *ast.KeyValueExpr:
			if f.info.Types[n.Key].Value != nil {
				f.walk(n.Value)
				return false
			}
		case *ast.BlockStmt:
			f.statements(n.List)
		case *ast.CaseClause:
			f.statements(n.Body)
		case *ast.IfStmt:
			f.condition(n.Cond)
		case *ast.ForStmt:
			f.forLoop(n)
			return false
		case *ast.RangeStmt:
			if f.kind(n.X) == types.IsInteger {
				f.add(n.X, []string{f.text(n.X) + " - 1"}, f.around(n.X, "_mLen["+f.typeName(n.X)+"](%d, ", ")")...)
				if f.constant(n.X) {
					f.walk(n.Body)
					return false
				}
			}
		case *ast.ReturnStmt:
			return !f.besideError(n)
		case *ast.AssignStmt:
			f.assignment(n)
		case *ast.IncDecStmt:
			op := map[token.Token]string{token.INC: " += ", token.DEC: " -= "}[n.Tok]
			f.add(n, []string{"the other way", "nothing"}, edit{at: f.offset(n.TokPos), del: 2,
				text: op + "_mTerm[" + f.typeName(n.X) + "](%d, 1)"})
		case ast.Expr:
			if f.constant(n) {
				f.literal(n)
				return false
			}
			f.expression(n)
		}
		return true
	})
}

// besideError handles a return statement with an error. It visits only the results that are not constants, as constants
// beside an error have no meaning. It reports whether the statement is of this kind.
func (f *finder) besideError(n *ast.ReturnStmt) bool {
	last := len(n.Results) - 1
	if last < 1 || f.info.Types[n.Results[last]].IsNil() ||
		!types.Identical(f.info.TypeOf(n.Results[last]), types.Universe.Lookup("error").Type()) {
		return false
	}
	for _, e := range n.Results {
		if !f.constant(e) {
			f.walk(e)
		}
	}
	return true
}

// forLoop visits a loop without its post statement. If that is mutated, most loops never end.
func (f *finder) forLoop(n *ast.ForStmt) {
	if n.Init != nil {
		f.walk(n.Init)
	}
	if n.Cond != nil {
		f.walk(n.Cond)
	}
	f.walk(n.Body)
}

// statements adds mutants that each leave out one statement of a block: an assignment or a call.
func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok != token.ASSIGN || f.text(s.Lhs[0]) == "_" {
				continue
			}
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); !ok || f.text(call.Fun) == "panic" {
				continue
			}
		default:
			continue
		}
		f.add(s, []string{"nothing"}, f.around(s, "if !_mOn(%d, 1) { ", " }")...)
	}
}

// condition adds a mutant that negates a condition, unless it is an operation, which has its own mutants.
func (f *finder) condition(e ast.Expr) {
	switch e.(type) {
	case *ast.Ident, *ast.CallExpr, *ast.SelectorExpr, *ast.IndexExpr:
		f.add(e, []string{"!" + f.text(e)}, f.around(e, "_mNot(%d, ", ")")...)
	}
}

func (f *finder) assignment(n *ast.AssignStmt) {
	var helper string
	var mutants []string
	switch n.Tok {
	case token.ADD_ASSIGN:
		helper, mutants = "_mTerm", []string{"-=", "nothing"}
	case token.SUB_ASSIGN:
		helper, mutants = "_mTerm", []string{"+=", "nothing"}
	case token.MUL_ASSIGN:
		helper, mutants = "_mFactor", []string{"/=", "nothing"}
	case token.QUO_ASSIGN:
		helper, mutants = "_mFactor", []string{"*=", "nothing"}
	}
	if helper == "" || f.kind(n.Lhs[0]) == 0 {
		return
	}
	f.add(n, mutants, f.around(n.Rhs[0], helper+"["+f.typeName(n.Lhs[0])+"](%d, ", ")")...)
}

// literal adds a mutant that changes a constant: an integer by one, another number by a quarter. It does not change an
// integer constant that is given only by a name, as such names stand for values that are not computed with.
func (f *finder) literal(e ast.Expr) {
	hasLiteral := false
	ast.Inspect(e, func(n ast.Node) bool {
		_, is := n.(*ast.BasicLit)
		hasLiteral = hasLiteral || is
		return true
	})
	helper, mutant := "_mFloat", "·1.25"
	switch kind := f.kind(e); {
	case kind == 0:
		return
	case kind&types.IsInteger != 0:
		if !hasLiteral {
			return
		}
		helper, mutant = "_mInt", " + 1"
	case constant.Compare(f.info.Types[e].Value, token.EQL, constant.MakeInt64(0)):
		mutant = " + 1"
	}
	f.add(e, []string{f.text(e) + mutant}, f.around(e, helper+"["+f.typeName(e)+"](%d, ", ")")...)
}

func (f *finder) expression(e ast.Expr) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		f.binary(e)
	case *ast.UnaryExpr:
		switch {
		case e.Op == token.SUB && f.kind(e.X) != 0:
			f.add(e, []string{f.text(e.X)}, edit{at: f.offset(e.OpPos), del: 1, text: "_mNeg(%d, "},
				edit{at: f.offset(e.End()), text: ")", close: true})
		case e.Op == token.NOT:
			f.add(e, []string{f.text(e.X)}, f.around(e, "_mNot(%d, ", ")")...)
		}
	case *ast.CallExpr:
		f.call(e)
	}
}

func (f *finder) binary(e *ast.BinaryExpr) {
	switch e.Op {
	case token.EQL, token.NEQ:
		if f.isBool(e) {
			other := map[token.Token]string{token.EQL: " != ", token.NEQ: " == "}[e.Op]
			f.add(e, []string{f.text(e.X) + other + f.text(e.Y)}, f.around(e, "_mNot(%d, ", ")")...)
		}
		return
	case token.LAND, token.LOR:
		drop := map[token.Token]string{token.LAND: ") || _mOn(%d, 1))", token.LOR: ") && !_mOn(%d, 1))"}[e.Op]
		x, y := f.around(e.X, "((", drop), f.around(e.Y, "((", drop)
		y[1].plus = 1
		f.add(e, []string{f.text(e.Y), f.text(e.X)}, append(x, y...)...)
		return
	}
	op, ok := operators[e.Op]
	if !ok {
		return
	}
	x, y := f.kind(e.X), f.kind(e.Y)
	mutants := op.floats
	if x&types.IsInteger != 0 {
		mutants = op.ints
	}
	if x == 0 || y == 0 || mutants == nil {
		return
	}
	var texts []string
	for _, m := range mutants {
		texts = append(texts, strings.NewReplacer("a", f.text(e.X), "b", f.text(e.Y)).Replace(m))
	}
	of := ""
	if op.floats != nil && len(op.floats) != len(op.ints) {
		of = fmt.Sprintf("%d, ", len(mutants))
	}
	f.add(e, texts, edit{at: f.offset(e.Pos()), text: op.helper + "(%d, " + of},
		edit{at: f.offset(e.OpPos), del: len(e.Op.String()), text: ","},
		edit{at: f.offset(e.End()), text: ")", close: true})
}

// call adds the mutants of a call of min or max with two numbers, or of a function of package math or math/cmplx.
func (f *finder) call(e *ast.CallExpr) {
	switch fun := e.Fun.(type) {
	case *ast.Ident:
		_, builtin := f.info.Uses[fun].(*types.Builtin)
		if !builtin || fun.Name != "min" && fun.Name != "max" || len(e.Args) != 2 || f.kind(e) == 0 {
			return
		}
		a, b := f.text(e.Args[0]), f.text(e.Args[1])
		helper, other := "_mMin", "max"
		if fun.Name == "max" {
			helper, other = "_mMax", "min"
		}
		f.add(e, []string{fmt.Sprintf("%s(%s, %s)", other, a, b), a, b}, edit{at: f.offset(fun.Pos()),
			del: f.offset(e.Lparen) + 1 - f.offset(fun.Pos()), text: helper + "[" + f.typeName(e) + "](%d, "})
	case *ast.SelectorExpr:
		name, ok := fun.X.(*ast.Ident)
		if !ok || f.kind(e)&(types.IsFloat|types.IsComplex) == 0 {
			return
		}
		if p, ok := f.info.Uses[name].(*types.PkgName); ok && (p.Imported().Path() == "math" || p.Imported().Path() ==
			"math/cmplx") && !slices.Contains([]string{"Inf", "NaN"}, fun.Sel.Name) {
			f.add(e, []string{"1.06·" + f.text(e)}, f.around(e, "_mScale(%d, ", ")")...)
		}
	}
}
