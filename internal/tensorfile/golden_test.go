package tensorfile

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"memopt/internal/golden"
	"memopt/internal/graph"
)

// TestRead reads files that NumPy and the safetensors library wrote, and prints
// what is in them.
func TestRead(t *testing.T) {
	for _, file := range []string{
		"numpy.npz", "deflated.npz", "version2.npy", "version3.npy", "official.safetensors", "bf16.safetensors",
	} {
		t.Run(file, func(t *testing.T) {
			path := filepath.Join("testdata", file)
			s, err := readFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := text(s)
			if strings.HasSuffix(file, ".safetensors") {
				_, meta, err := ReadSafetensors(path)
				if err != nil {
					t.Fatal(err)
				}
				for _, k := range slices.Sorted(maps.Keys(meta)) {
					got += fmt.Sprintf("metadata %q: %q\n", k, meta[k])
				}
			}
			golden.File(t, path+".txt", got)
		})
	}
}

// text is a line for each tensor: name, type, numbers.
func text(s *Set) string {
	var sb strings.Builder
	for _, name := range s.Names {
		x := s.Tensors[name]
		fmt.Fprintf(&sb, "%q %s =", name, typeText(x.Type, x.Shape))
		for i := range x.Len() {
			if x.Type.IsFloat() {
				sb.WriteString(" " + strconv.FormatFloat(x.Float(i), 'g', -1, 64))
			} else {
				fmt.Fprintf(&sb, " %d", x.Int(i))
			}
		}
		sb.WriteByte('\n')
	}
	return sb.String()
}

// set makes a Set of names and tensors in turn.
func set(pairs ...any) *Set {
	s := &Set{}
	for i := 0; i < len(pairs); i += 2 {
		if err := s.add(pairs[i].(string), nil, pairs[i+1].(*graph.Tensor)); err != nil {
			panic(err)
		}
	}
	return s
}

// readFile reads a file by the end of its name.
func readFile(path string) (*Set, error) {
	if strings.HasSuffix(path, ".safetensors") {
		s, _, err := ReadSafetensors(path)
		return s, err
	}
	return ReadNPZ(path)
}
