package vk

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rules are what the binding asks of those who call it, as checks of their source:
// most of it goes wrong so rarely that no run would show it. Each has a source
// that breaks it.
var rules = []struct {
	name   string
	broken string
	check  func(f *ast.FuncDecl, complain func(format string, args ...any))
}{
	// The binding gives a C copy of the slice to Vulkan and a finalizer that frees it.
	{"no slices of structs", `vulkan.QueueSubmit(queue, 1, []vulkan.SubmitInfo{info}, fence)`, func(f *ast.FuncDecl, complain func(string, ...any)) {
		takers := []string{"QueueSubmit", "UpdateDescriptorSets", "CreateComputePipelines", "CreateGraphicsPipelines", "CmdPipelineBarrier", "CmdCopyBuffer", "CmdWaitEvents",
			"FlushMappedMemoryRanges", "InvalidateMappedMemoryRanges", "QueueBindSparse", "CmdExecuteCommands", "CmdCopyImage", "CmdBlitImage"}
		for _, c := range bindingCalls(f) {
			if slices.Contains(takers, calledName(c)) {
				complain("vulkan.%s: the binding frees its slice while Vulkan may read it", calledName(c))
			}
		}
	}},
	// A field of a struct that holds Go pointers is no place for a result.
	{"results into plain variables", `vulkan.CreateDevice(physical, nil, nil, &d.device)`, func(f *ast.FuncDecl, complain func(string, ...any)) {
		for _, c := range bindingCalls(f) {
			for _, a := range c.Args {
				if u, ok := a.(*ast.UnaryExpr); ok && u.Op == token.AND {
					if _, plain := u.X.(*ast.Ident); !plain {
						complain("vulkan.%s gets the address of something else than a variable", calledName(c))
					}
				}
			}
		}
	}},
	// A struct remembers its first C form: later edits count for nothing, and what is
	// not freed leaks. What it holds of Go must live as long as the call.
	{"a struct for a call", `info := vulkan.BufferCreateInfo{Size: 1}; vulkan.CreateBuffer(d, &info, nil, &b); info.Size = 2; vulkan.CreateBuffer(d, &info, nil, &b)`, func(f *ast.FuncDecl, complain func(string, ...any)) {
		for _, name := range bindingStructs(f) {
			calls := 0
			for _, c := range bindingCalls(f) {
				for _, a := range c.Args {
					if u, ok := a.(*ast.UnaryExpr); ok && isIdent(u.X, name) {
						calls++
					}
				}
			}
			if calls > 1 {
				complain("%s is given to %d calls; it stays what it was for the first", name, calls)
			}
			if !callsOf(f, name, "Free") {
				complain("%s is not freed", name)
			}
			if !keepsAlive(f, name) {
				complain("%s may be collected before the call is over", name)
			}
		}
	}},
	// Fields of a result are zero before Deref.
	{"results are read after Deref", `var needs vulkan.MemoryRequirements; vulkan.GetBufferMemoryRequirements(d, b, &needs); return needs.Size`, func(f *ast.FuncDecl, complain func(string, ...any)) {
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && fromBinding(v.Type, "MemoryRequirements", "MemoryProperties", "Properties", "Limits", "MemoryHeap", "MemoryType") {
				for _, name := range v.Names {
					if !callsOf(f, name.Name, "Deref") || !callsOf(f, name.Name, "Free") {
						complain("%s is not dereferenced and freed", name.Name)
					}
				}
			}
			return true
		})
	}},
	{"strings end in NUL", `info := vulkan.ApplicationInfo{PApplicationName: "memopt"}`, func(f *ast.FuncDecl, complain func(string, ...any)) {
		ast.Inspect(f, func(n ast.Node) bool {
			if c, ok := n.(*ast.CompositeLit); ok && fromBinding(c.Type) {
				ast.Inspect(c, func(n ast.Node) bool {
					if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING {
						if text, err := strconv.Unquote(s.Value); err != nil || !strings.HasSuffix(text, "\x00") {
							complain("%s does not end in NUL", s.Value)
						}
					}
					return true
				})
			}
			return true
		})
	}},
}

// longLived are the handles that are pointers in every driver and layer; others may
// be numbers, which Go's memory must not hold as pointers.
var longLived = []string{"Instance", "Device", "PhysicalDevice", "Queue"}

// TestRules: the package keeps what the binding asks for, and each rule can fail.
func TestRules(t *testing.T) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "vk.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok {
					seen += len(bindingCalls(f))
					r.check(f, func(format string, args ...any) { t.Errorf("%s: %s", f.Name.Name, fmt.Sprintf(format, args...)) })
				}
			}
			bad, err := parser.ParseFile(fset, "broken.go", "package p\nfunc broken() { "+r.broken+" }", 0)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			r.check(bad.Decls[0].(*ast.FuncDecl), func(string, ...any) { found = true })
			if !found {
				t.Errorf("%s is not found", r.broken)
			}
		})
	}
	if seen < 10*len(rules) {
		t.Errorf("only %d calls were looked at", seen)
	}
	t.Run("handles are numbers", func(t *testing.T) {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					if fromBinding(field.Type) && !fromBinding(field.Type, longLived...) {
						t.Errorf("%v is kept as a pointer", field.Names)
					}
				}
			}
			return true
		})
	})
}

// TestExtensions: a loader may give a function that a driver lacks, and calling it
// jumps to address 0. So the functions that everybody must have are of Vulkan
// itself, and one of an extension is fetched by its name behind a test for that.
func TestExtensions(t *testing.T) {
	text, err := os.ReadFile("shim.c")
	if err != nil {
		t.Fatal(err)
	}
	ofExtension := regexp.MustCompile(`\b\w+(KHR|EXT|NV|AMD)\b`)
	list := regexp.MustCompile(`(?s)#define FUNCTIONS\(F\).*?\n\n`).Find(text)
	if len(list) == 0 {
		t.Fatal("no list of functions")
	}
	if bad := ofExtension.Find(list); bad != nil {
		t.Errorf("%s is fetched from every device", bad)
	}
	fetched := regexp.MustCompile(`(?m)^.*_function\(.*"vk(\w+)".*$|^.*\bof\(.*"vk(\w+)".*$`)
	for _, line := range fetched.FindAllString(string(text), -1) {
		name := ofExtension.FindString(strings.SplitN(line, `"vk`, 2)[1])
		if name != "" && name != "CreateDebugUtilsMessengerEXT" && !strings.Contains(line, "->has_") { // that one goes with its layer
			t.Errorf("%s is fetched without a look at the extensions: %s", name, strings.TrimSpace(line))
		}
	}
}

func bindingCalls(f *ast.FuncDecl) (all []*ast.CallExpr) {
	ast.Inspect(f, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && fromBinding(c.Fun) {
			all = append(all, c)
		}
		return true
	})
	return all
}

func calledName(c *ast.CallExpr) string { return c.Fun.(*ast.SelectorExpr).Sel.Name }

// bindingStructs are the variables of a function that are structs for a call.
func bindingStructs(f *ast.FuncDecl) (names []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == 1 && len(a.Rhs) == 1 {
			if c, ok := a.Rhs[0].(*ast.CompositeLit); ok && fromBinding(c.Type) {
				names = append(names, a.Lhs[0].(*ast.Ident).Name)
			}
		}
		return true
	})
	return names
}

// fromBinding reports whether an expression is a name of the binding, one of those
// if there are any.
func fromBinding(x ast.Expr, names ...string) bool {
	s, ok := x.(*ast.SelectorExpr)
	return ok && isIdent(s.X, "vulkan") && (len(names) == 0 || slices.Contains(names, s.Sel.Name))
}

func isIdent(x ast.Expr, name string) bool {
	i, ok := x.(*ast.Ident)
	return ok && i.Name == name
}

func callsOf(f *ast.FuncDecl, variable, method string) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && isIdent(s.X, variable) && s.Sel.Name == method {
			found = true
		}
		return true
	})
	return found
}

func keepsAlive(f *ast.FuncDecl, variable string) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && len(c.Args) == 1 {
			s, isSelector := c.Fun.(*ast.SelectorExpr)
			u, isAddress := c.Args[0].(*ast.UnaryExpr)
			found = found || isSelector && isIdent(s.X, "runtime") && s.Sel.Name == "KeepAlive" && isAddress && isIdent(u.X, variable)
		}
		return true
	})
	return found
}
