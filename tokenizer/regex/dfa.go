package regex

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// DFA is a compiled pattern. It finds the match at a position of a text with one table look-up per character.
//
// It simulates a backtracking matcher by ordered lists of program counters (Pike's machine, see Cox, "Regular
// Expression Matching: the Virtual Machine Approach"). Each list that can occur is a row of a table that is computed
// ahead of time. So the time is linear in the text, while that of backtracking may not be, and compiled patterns are
// read-only.
type DFA struct {
	// next holds a row of stride entries for every list. Entry row·stride + symbol class is twice the start of the next
	// row, plus 1 if a match ends before that symbol. Row 0 is the empty list: nothing can match any more. The last
	// class is the end of the text.
	next   []uint32
	stride uint32
	start  uint32

	ascii   [utf8.RuneSelf]uint8           // symbol classes of characters below U+0080
	invalid uint8                          // symbol class of invalidByte
	page    [unicode.MaxRune>>8 + 1]uint16 // index of the page of character >> 8
	class   []uint8                        // pages with the classes of 256 characters
}

// Match returns the end of the match that starts at text[at:], or at if there is none. If final is false, more text may
// follow, and settled is false if that could change the result.
func (d *DFA) Match(text []byte, at int, final bool) (end int, settled bool) {
	end = at
	row := d.start
	for i := at; i < len(text); {
		size := 1
		var class uint8
		if b := text[i]; b < utf8.RuneSelf {
			class = d.ascii[b]
		} else {
			var r rune
			r, size = utf8.DecodeRune(text[i:])
			switch {
			case r != utf8.RuneError || size > 1:
				class = d.class[int(d.page[r>>8])<<8|int(r&0xff)]
			case !final && !utf8.FullRune(text[i:]):
				return at, false
			default:
				class = d.invalid
			}
		}
		to := d.next[row+uint32(class)]
		if to&1 != 0 {
			end = i
		}
		if row = to >> 1; row == 0 {
			return end, true
		}
		i += size
	}
	if !final {
		return at, false
	}
	if d.next[row+d.stride-1]&1 != 0 {
		end = len(text)
	}
	return end, true
}

// Limits of compiled patterns, above those of published tokenizers (GPT-2's has 22 lists, o200k's 54).
const (
	maxProgram = 1000
	maxSets    = 64
	maxClasses = 255
	maxLists   = 1024
)

// regexInst is an instruction of a compiled pattern. A list of program counters is run on one symbol at a time.
type regexInst struct {
	op      instOp
	negated bool // instLook
	set     int  // instSet, instLook: index in regexProgram.sets
	x, y    int  // instSplit: go to x, or if that fails to y; instJump: go to x
}

type instOp int

const (
	instSet instOp = iota
	instLook
	instSplit
	instJump
	instMatch
)

type regexProgram struct {
	insts []regexInst
	sets  []Set
	work  *Work

	seen, kept []int // for each instruction, the number of the call of step that last visited or kept it
	steps      int
}

// Compile compiles a single pattern.
func Compile(pattern string) (*DFA, error) {
	work := MaxWork
	return CompileWithin(pattern, &work)
}

// CompileWithin compiles a pattern within the remaining work.
func CompileWithin(pattern string, work *Work) (*DFA, error) {
	node, err := parseRegex(pattern, work)
	if err != nil {
		return nil, err
	}
	d, err := CompileNode(node, work)
	if err != nil {
		return nil, fmt.Errorf("pattern %.60q: %w", pattern, err)
	}
	return d, nil
}

func CompileNode(node *Node, work *Work) (*DFA, error) {
	p, d := regexProgram{work: work}, &DFA{}
	return d, fault.Catch(func() {
		p.emit(node)
		if len(p.sets) > maxSets {
			fault.Raisef("%d different characters and classes, want at most %d", len(p.sets), maxSets)
		}
		p.insts = append(p.insts, regexInst{op: instMatch})
		d.determinize(&p, d.classify(p.sets))
	})
}

// emit appends the program of a node. After a match, execution continues with the instruction after that program.
func (p *regexProgram) emit(n *Node) {
	if len(p.insts) > maxProgram {
		fault.Raisef("it is too long")
	}
	switch n.Op {
	case OpSet, opLook:
		p.work.spend((1 + len(p.sets)) * (1 + len(n.Set)))
		i := slices.IndexFunc(p.sets, func(s Set) bool { return slices.Equal(s, n.Set) })
		if i < 0 {
			i = len(p.sets)
			p.sets = append(p.sets, n.Set)
		}
		op := instSet
		if n.Op == opLook {
			op = instLook
		}
		p.insts = append(p.insts, regexInst{op: op, set: i, negated: n.negated})
	case opCat:
		for _, sub := range n.Subs {
			p.emit(sub)
		}
	case OpAlt:
		var jumps []int
		for i, sub := range n.Subs {
			split := len(p.insts)
			if i+1 < len(n.Subs) {
				p.insts = append(p.insts, regexInst{op: instSplit, x: split + 1})
			}
			p.emit(sub)
			if i+1 < len(n.Subs) {
				jumps = append(jumps, len(p.insts))
				p.insts = append(p.insts, regexInst{op: instJump})
				p.insts[split].y = len(p.insts)
			}
		}
		for _, j := range jumps {
			p.insts[j].x = len(p.insts)
		}
	case OpRepeat:
		for range n.Min {
			p.emit(n.Subs[0])
		}
		var splits []int
		for i := n.Min; n.Max < 0 && i == n.Min || i < n.Max; i++ {
			splits = append(splits, len(p.insts))
			p.insts = append(p.insts, regexInst{op: instSplit, x: len(p.insts) + 1})
			p.emit(n.Subs[0])
		}
		if n.Max < 0 {
			p.insts = append(p.insts, regexInst{op: instJump, x: splits[0]})
		}
		for _, s := range splits {
			p.insts[s].y = len(p.insts)
		}
	}
}

// classify divides the symbols into classes, such that each set of the pattern contains all or none of a class. It
// returns for each class the sets that contain it, as bits. One more class, in no set, stands for the end of the text.
func (d *DFA) classify(sets []Set) (masks []uint64) {
	// At an edge, symbols enter or leave a set. All symbols between two edges belong to the same class.
	type edge struct {
		at  rune
		set int
	}
	var edges []edge
	for i, s := range sets {
		for _, r := range s {
			edges = append(edges, edge{r.Lo, i}, edge{r.Hi + 1, i})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })

	classOf := map[uint64]uint8{}
	pageOf := map[uint8]uint16{} // by class, pages that are filled with one class
	var page []uint8
	in := uint64(0) // sets that contain symbol at
	for at := rune(0); at <= invalidByte; {
		for len(edges) > 0 && edges[0].at == at {
			in ^= 1 << edges[0].set
			edges = edges[1:]
		}
		next := rune(invalidByte + 1)
		if len(edges) > 0 {
			next = edges[0].at
		}
		class, ok := classOf[in]
		if !ok {
			if len(masks) == maxClasses {
				fault.Raisef("more than %d kinds of character", maxClasses)
			}
			class = uint8(len(masks))
			classOf[in] = class
			masks = append(masks, in)
		}
		for at < next && at <= unicode.MaxRune {
			if len(page) == 0 && next-at >= 256 {
				number, ok := pageOf[class]
				if !ok {
					number = d.addPage(bytes.Repeat([]byte{class}, 256))
					pageOf[class] = number
				}
				d.page[at>>8] = number
				at += 256
				continue
			}
			page = append(page, class)
			if at++; len(page) == 256 {
				d.page[(at-1)>>8] = d.addPage(page)
				page = page[:0]
			}
		}
		if next > invalidByte {
			d.invalid = class
			break
		}
	}
	copy(d.ascii[:], d.class[int(d.page[0])<<8:])
	return append(masks, 0)
}

// addPage adds the classes of 256 characters and returns the index of their page.
func (d *DFA) addPage(classes []uint8) uint16 {
	d.class = append(d.class, classes...)
	return uint16(len(d.class)>>8 - 1)
}

// determinize fills the table, one row for each list of program counters that can be reached from the start.
func (d *DFA) determinize(p *regexProgram, masks []uint64) {
	d.stride = uint32(len(masks))
	rowOf := map[string]uint32{"": 0}
	lists := [][]int{nil}
	row := func(list []int) uint32 {
		var key []byte
		for _, pc := range list {
			key = binary.LittleEndian.AppendUint16(key, uint16(pc))
		}
		at, ok := rowOf[string(key)]
		if !ok {
			at = uint32(len(lists)) * d.stride
			rowOf[string(key)] = at
			lists = append(lists, list)
		}
		return at
	}
	d.start = row([]int{0})
	for i := 0; i < len(lists); i++ {
		if len(lists) > maxLists {
			fault.Raisef("it needs more than %d states", maxLists)
		}
		for class, mask := range masks {
			list, matched := p.step(lists[i], mask, class == len(masks)-1)
			p.work.spend(0)
			entry := row(list) << 1
			if matched {
				entry |= 1
			}
			d.next = append(d.next, entry)
		}
	}
}

// step runs a list of program counters, in order of preference, on a symbol that is in the sets of mask, or on the end
// of the text. It returns the list after that symbol, and whether there is a match before it. A match is preferred to
// everything after it in the list, so the list ends there.
func (p *regexProgram) step(list []int, mask uint64, atEnd bool) (next []int, matched bool) {
	if p.steps == 0 {
		p.seen, p.kept = make([]int, len(p.insts)), make([]int, len(p.insts)+1)
	}
	p.steps++
	work := len(list) + 1
	defer func() { *p.work -= Work(work) }()
	var follow func(pc int) bool // reports whether a match ends the list
	follow = func(pc int) bool {
		for p.seen[pc] != p.steps {
			p.seen[pc] = p.steps
			work++
			inst := p.insts[pc]
			in := !atEnd && mask>>inst.set&1 != 0
			switch inst.op {
			case instMatch:
				return true
			case instJump:
				pc = inst.x
			case instSplit:
				if follow(inst.x) {
					return true
				}
				pc = inst.y
			case instLook:
				if in == inst.negated {
					return false
				}
				pc++
			case instSet:
				if in && p.kept[pc+1] != p.steps {
					p.kept[pc+1] = p.steps
					next = append(next, pc+1)
				}
				return false
			}
		}
		return false
	}
	for _, pc := range list {
		if follow(pc) {
			return next, true
		}
	}
	return next, false
}
