package report

import (
	_ "embed" // the template
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"text/template/parse"

	"github.com/tidwall/gjson"

	"memopt/memopt/loader"
	"memopt/memopt/visible"
	"memopt/planner"
)

// Page is what a report page tells: a plan's file, and what is known beside it.
type Page struct {
	Title    string
	File     *planner.File
	Settings []Setting
	Command  string           // that makes the page again; "" leaves it out
	Picture  *planner.Picture // nil leaves the drawings out: a plan file alone does not have them
	Trained  *Trained         // nil for a page about a plan
}

// Trained is what a run under the plan measured.
type Trained struct {
	Device    string
	FirstStep int
	Losses    []float64
	MedianMS  float64
	Lines     []Line
	Workspace int64 // of the device, beside these
	Stopped   string
	Lossy     string
	Phases    []loader.Phase // none if nobody asked
	Rule      string         // how host and device are combined in them
}

// The most rows of each kind; the JSON has all.
const (
	maxPageRows  = 200
	maxPagePeaks = 40
)

//go:embed page.html
var pageText string

// HTML writes a page that stands alone: no script, no font and no picture from
// elsewhere. The same page is the same bytes.
func HTML(w io.Writer, p Page) error {
	doc, err := document(p.File)
	if err != nil {
		return err
	}
	t, err := parsed("page", pageText, doc.functions())
	if err != nil {
		return err
	}
	if err := t.Execute(w, layout(p)); err != nil {
		return err
	}
	return nil
}

// parsed is a template whose texts are shown as one line each, whatever names in
// them hold, unless they are Lines. What is HTML already is made of our own words.
func parsed(name, text string, functions template.FuncMap) (*template.Template, error) {
	functions[spelled] = func(x any) any {
		switch x := x.(type) {
		case string:
			return visible.Line(x)
		case visible.Lines:
			return visible.Text(string(x))
		}
		return x
	}
	t, err := template.New(name).Funcs(functions).Parse(text)
	if err == nil {
		spellNames(t.Tree.Root)
	}
	return t, err
}

// spellNames ends everything that a template prints with the function spelled.
func spellNames(n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		for _, m := range n.Nodes {
			spellNames(m)
		}
	case *parse.RangeNode:
		spellBranches(&n.BranchNode)
	case *parse.IfNode:
		spellBranches(&n.BranchNode)
	case *parse.WithNode:
		spellBranches(&n.BranchNode)
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 {
			n.Pipe.Cmds = append(n.Pipe.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Args: []parse.Node{parse.NewIdentifier(spelled)}})
		}
	}
}

func spellBranches(n *parse.BranchNode) {
	spellNames(n.List)
	if n.ElseList != nil {
		spellNames(n.ElseList)
	}
}

// spelled is the name of a template function.
const spelled = "spelled"

// figures is the plan's JSON, which every figure of the page is taken from by
// its path. The page repeats the path, so that a reader, or a test, can compare.
type figures struct{ json gjson.Result }

func document(f *planner.File) (figures, error) {
	short := *f
	short.Steps, short.Offsets, short.Program, short.Saved = nil, nil, nil, nil
	short.Clusters = f.Clusters[:min(len(f.Clusters), maxPageRows)]
	data, err := json.Marshal(short)
	if err != nil {
		return figures{}, err
	}
	return figures{gjson.ParseBytes(data)}, nil
}

func (f figures) functions() template.FuncMap {
	return template.FuncMap{
		"bytes":   f.as(func(r gjson.Result) string { return Bytes(r.Int()) }),
		"fall":    f.as(func(r gjson.Result) string { return fall(r.Int()) }),
		"count":   f.as(func(r gjson.Result) string { return Thousands(r.Int()) }),
		"percent": f.as(func(r gjson.Result) string { return Extra(r.Float(), 2) }),
		"limit":   f.as(func(r gjson.Result) string { return fmt.Sprintf("%.4g %%", 100*r.Float()) }),
		"points":  f.as(func(r gjson.Result) string { return fmt.Sprintf("%.2f points", 100*r.Float()) }),
		"clip":    clip,
		"size":    Bytes,
		"unless":  unlessBelow,
		"signed":  Signed,
		"comma":   Thousands,
		"comma64": func(n int) string { return Thousands(int64(n)) },
		"minus":   func(a, b int) int { return a - b },
		"color":   func(c planner.Class) string { return fmt.Sprintf("c%d", c) },
		"verdict": verdict,
		// How much a share that is given with its sign comes to.
		"percentage":  func(x float64) float64 { return math.Abs(100 * x) },
		"planeWidth":  func() int { return planeWidth },
		"planeHeight": func() int { return planeHeight },
	}
}

// as is a function of templates: the parts of a path in, an element out that
// shows the figure there and holds its exact value.
func (f figures) as(show func(gjson.Result) string) func(...any) (template.HTML, error) {
	return func(parts ...any) (template.HTML, error) {
		var words []string
		for _, p := range parts {
			words = append(words, fmt.Sprint(p))
		}
		path := strings.Join(words, ".")
		r := f.json.Get(path)
		if r.Type != gjson.Number {
			return "", fmt.Errorf("the plan's JSON has no number at %s", path)
		}
		// A path is made of our own words and of indices, a number of digits.
		return template.HTML(fmt.Sprintf(`<data value="%s" data-at="%s" title="%s">%s</data>`, r.Raw, path, r.Raw, show(r))), nil
	}
}
