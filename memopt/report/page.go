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

	"memopt/internal/loader"
	"memopt/internal/visible"
	"memopt/planner"
	"memopt/planner/planfile"
)

// Page is the content of an HTML page: a plan's file and additional data.
type Page struct {
	Title    string
	File     *planfile.File
	Settings []Setting
	Command  string           // that makes the page; "": not shown
	Picture  *planner.Picture // nil: no drawings, as a plan file has no picture
	Trained  *Trained         // nil: a page about a plan only
}

// Trained is the measurements of a run under the plan.
type Trained struct {
	Device    string
	FirstStep int
	Losses    []float64
	MedianMS  float64
	Lines     []Line
	Workspace int64 // of the device, not in Lines
	Stopped   string
	Lossy     string
	Phases    []loader.Phase // if requested
	Rule      string         // how host and device memory are related
}

// Limits of rows; the JSON has all.
const (
	maxPageRows  = 200
	maxPagePeaks = 40
)

//go:embed page.html
var pageText string

// HTML writes a self-contained page, without scripts, fonts or pictures from elsewhere. Equal input
// gives equal bytes.
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

// RunsHTML writes a page that stands alone about runs of a forward program.
func RunsHTML(w io.Writer, title, about string, lines []Line, rows []loader.Phase, rule string) error {
	t, err := parsed("page", pageText, figures{}.functions())
	if err != nil {
		return err
	}
	return t.ExecuteTemplate(w, "runs", struct {
		Title, About string
		Lines        []Line
		Phases       *phasesView
	}{title, about, lines, phases(rows, rule)})
}

// parsed parses a template that prints each text on one line, whatever names in it contain, unless
// it is a visible.Lines. Values of type HTML come from this package.
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
		for _, part := range t.Templates() {
			spellNames(part.Tree.Root)
		}
	}
	return t, err
}

// spellNames appends the function spelled to all pipelines that print.
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

// figures is the plan's JSON, from which all figures of the page are taken by path. The page
// contains the paths, so that readers and tests can compare.
type figures struct{ json gjson.Result }

func document(f *planfile.File) (figures, error) {
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
		"time":    f.as(func(r gjson.Result) string { return Nanoseconds(r.Float()) }),
		"limit":   f.as(func(r gjson.Result) string { return fmt.Sprintf("%.4g %%", 100*r.Float()) }),
		"points":  f.as(func(r gjson.Result) string { return fmt.Sprintf("%.2f points", 100*r.Float()) }),
		"clip":    clip,
		"size":    Bytes,
		"saving":  saving,
		"unless":  unlessBelow,
		"signed":  Signed,
		"comma":   Thousands,
		"comma64": func(n int) string { return Thousands(int64(n)) },
		"minus":   func(a, b int) int { return a - b },
		"color":   func(c planner.Class) string { return fmt.Sprintf("c%d", c) },
		"verdict": verdict,
		// The absolute value of a share, in percent.
		"percentage":  func(x float64) float64 { return math.Abs(100 * x) },
		"planeWidth":  func() int { return planeWidth },
		"planeHeight": func() int { return planeHeight },
	}
}

// as makes a template function: its arguments are the parts of a path, its result an element that
// shows the figure and contains the exact value.
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
		// Paths consist of our own words and of indices.
		return template.HTML(fmt.Sprintf(`<data value="%s" data-at="%s" title="%s">%s</data>`, r.Raw, path, r.Raw, show(r))), nil
	}
}
