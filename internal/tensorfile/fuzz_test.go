package tensorfile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func seed(f *testing.F, pattern string) {
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// oneLine checks an error's form.
func oneLine(t *testing.T, err error) {
	if s := err.Error(); strings.ContainsAny(s, "\n\r") || len(s) > 1000 {
		t.Errorf("not one line of bearable length: %q", s)
	}
}

// FuzzReadNPZ: any bytes give a set or an error; a set survives being written.
func FuzzReadNPZ(f *testing.F) {
	seed(f, "*.npz")
	seed(f, "*.npy")
	f.Add([]byte(npy("{'descr': '>i4', 'fortran_order': True, 'shape': (2, 2)}", "0123456789abcdef")))
	f.Add([]byte(shared(2)))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := readNumPy(b, "x")
		if err != nil {
			oneLine(t, err)
			return
		}
		if s.check() != nil {
			return // names that are not text can be read only
		}
		var w bytes.Buffer
		if err := writeArchive(&w, s); err != nil {
			t.Fatal(err)
		}
		again, err := readNumPy(w.Bytes(), "")
		if err != nil {
			t.Fatal(err)
		}
		same(t, again, s)
	})
}

// FuzzReadSafetensors: any bytes give a set or an error; a set survives being
// written.
func FuzzReadSafetensors(f *testing.F) {
	seed(f, "*.safetensors")
	f.Add([]byte(safe(`{"__metadata__":{"a":"\ud800"},"w":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}`, "ab")))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, meta, err := readSafetensors(b)
		if err != nil {
			oneLine(t, err)
			return
		}
		if s.check() != nil {
			return
		}
		header, order, err := safeHeaderOf(s, meta)
		if err != nil {
			t.Fatal(err)
		}
		var w bytes.Buffer
		if err := s.writeSafe(&w, header, order); err != nil {
			t.Fatal(err)
		}
		again, _, err := readSafetensors(w.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		same(t, again, s)
	})
}
