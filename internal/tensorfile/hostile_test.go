package tensorfile

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"os"
	"runtime"
	"strings"
	"testing"

	"memopt/internal/graph"
)

// npy is an .npy file with a header and numbers of the caller's.
func npy(dict, numbers string) string {
	b := []byte(npyMagic + "\x01\x00")
	b = binary.LittleEndian.AppendUint16(b, uint16(len(dict)))
	return string(b) + dict + numbers
}

// plain is an .npy file of one float.
func plain() string {
	return npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "\x00\x00\x80\x3f")
}

// member is what an archive claims of one of its files.
type member struct {
	name   string
	method uint16
	bytes  string
	total  uint64 // 0: as many as there are
	flags  uint16
	crc    uint32 // 0: the right one
}

func archive(ms ...member) string {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range ms {
		h := &zip.FileHeader{
			Name: m.name, Method: m.method, Flags: m.flags, CRC32: m.crc,
			CompressedSize64: uint64(len(m.bytes)), UncompressedSize64: m.total,
		}
		if m.total == 0 {
			h.UncompressedSize64 = uint64(len(m.bytes))
		}
		if m.crc == 0 {
			h.CRC32 = crc32.ChecksumIEEE([]byte(m.bytes))
		}
		f, err := w.CreateRaw(h)
		if err != nil {
			panic(err)
		}
		f.Write([]byte(m.bytes))
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

func deflated(s string) string {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		panic(err)
	}
	w.Write([]byte(s))
	w.Close()
	return b.String()
}

// shared is an archive whose directory lists the first member n times.
func shared(n int) string {
	ms := make([]member, n)
	for i := range ms {
		ms[i] = member{name: string(rune('a'+i)) + ".npy", bytes: plain()}
	}
	whole := archive(ms...)
	end := strings.LastIndex(whole, "PK\x05\x06")
	var directory string
	for _, entry := range strings.Split(whole[:end], "PK\x01\x02")[1:] {
		directory += "PK\x01\x02" + entry[:38] + "\x00\x00\x00\x00" + entry[42:]
	}
	one := archive(ms[0])
	front := one[:strings.Index(one, "PK\x01\x02")]
	tail := []byte(whole[end:])
	binary.LittleEndian.PutUint32(tail[16:], uint32(len(front)))
	return front + directory + string(tail)
}

// safe is a .safetensors file with a header and data of the caller's.
func safe(header, data string) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + data
}

func TestHostile(t *testing.T) {
	const half = "{'descr': '<f4', 'fortran_order': False, "
	zeros := strings.Repeat("\x00", 1<<20)
	big := npy(half+"'shape': (262144,), }", zeros)
	for _, c := range []struct{ file, bytes, want string }{
		{"x.npy", "", "not a NumPy file: it begins neither as .npz nor as .npy does"},
		{"x.npy", "GIF89a", "not a NumPy file: it begins neither as .npz nor as .npy does"},
		{"x.npy", npyMagic, "the data ends early"},
		{"x.npy", npyMagic + "\x04\x00\x10\x00", ".npy version 4 is not known, 1 to 3 are"},
		{"x.npy", npyMagic + "\x01\x00\x10\x00", "a header of 16 bytes is too long"},
		{"x.npy", npyMagic + "\x02\x00\xff\xff\xff\xff", "a header of 4294967295 bytes is too long"},
		{"x.npy", npyMagic + "\x03\x00\xff", "the data ends early"},
		{"x.npy", npy("", ""), `.npy header: { expected before the end`},
		{"x.npy", npy("{", ""), `.npy header: a string expected before the end`},
		{"x.npy", npy("{}", ""), `.npy header: it takes descr, fortran_order and shape`},
		{"x.npy", npy("{'a': 1}", ""), `.npy header: key "a" is not known`},
		{"x.npy", npy("{'shape': (), 'shape': ()}", ""), `.npy header: key "shape" stands twice`},
		{"x.npy", npy("{'shape' ()}", ""), `.npy header: : expected before "()}"`},
		{"x.npy", npy("{'shape': () 'descr'}", ""), `.npy header: } expected before "'descr'}"`},
		{"x.npy", npy("{'shape': (1)}", ""), `.npy header: a tuple of at most 64 numbers expected before ")}"`},
		{"x.npy", npy("{'shape': (1,2}", ""), `.npy header: ) expected before "}"`},
		{"x.npy", npy("{'shape': [1,2]}", ""), `.npy header: ( expected before "[1,2]}"`},
		{"x.npy", npy("{'shape': (-1,)}", ""), `.npy header: a dim expected before "-1,)}"`},
		{"x.npy", npy("{'shape': (9223372036854775808,)}", ""), `.npy header: a dim expected before "9223372036854775"`},
		{"x.npy", npy("{'shape': ("+strings.Repeat("1,", 65)+")}", ""), `.npy header: a tuple of at most 64 numbers expected before ")}"`},
		{"x.npy", npy("{'fortran_order': 0}", ""), `.npy header: False expected before "0}"`},
		{"x.npy", npy("{'descr': 'a\\'b'}", ""), `.npy header: a plain string expected before "'a\\'b'}"`},
		{"x.npy", npy("{'descr': 'f4}", ""), `.npy header: a plain string expected before "'f4}"`},
		{"x.npy", npy("{'descr': [('a', '<f4')]}", ""), `.npy header: records of several fields are not supported`},
		{"x.npy", npy("{'descr': '|O'}", ""), `.npy header: element type "|O" is not supported; f2 to f8, i1 to i8, u1 to u8 and b1 are`},
		{"x.npy", npy("{'descr': '<c8'}", ""), `.npy header: element type "<c8" is not supported; f2 to f8, i1 to i8, u1 to u8 and b1 are`},
		{"x.npy", npy("{'descr': '<>f4'}", ""), `.npy header: element type "<>f4" is not supported; f2 to f8, i1 to i8, u1 to u8 and b1 are`},
		{"x.npy", npy("{'descr': ''}", ""), `.npy header: element type "" is not supported; f2 to f8, i1 to i8, u1 to u8 and b1 are`},
		{"x.npy", npy(half+"'shape': ()} x", ""), `.npy header: there is more after the dict`},
		{"x.npy", npy(half+"'shape': (3,)}", "1234"), `4 bytes of numbers, f32[3] takes 12`},
		{"x.npy", plain() + "5", `5 bytes of numbers, f32[1] takes 4`},
		{"x.npy", npy(half+"'shape': (4611686018427387904,)}", ""), `there cannot be a f32[4611686018427387904]`},
		{"x.npy", npy(half+"'shape': (4294967296, 4294967296, 0)}", ""), `there cannot be a f32[4294967296, 4294967296, 0]`},
		{"x.npy", npy(half+"'shape': (1099511627776,)}", "1234"), `4 bytes of numbers, f32[1099511627776] takes 4398046511104`},

		{"x.npz", "PK", "not a whole .npz archive: not a valid zip file"},
		{"x.npz", archive(member{name: "a.npy", bytes: plain()})[:100], "not a whole .npz archive: not a valid zip file"},
		{"x.npz", archive(member{name: "a.txt", bytes: "x"}), `member "a.txt": not an array: the name should end in .npy`},
		{"x.npz", archive(member{name: "a.npy", bytes: "hello, world"}), `member "a.npy": not an array: it does not begin as .npy does`},
		{"x.npz", archive(member{name: "input.x.npy", bytes: npy(half+"'shape': (3,)}", "1234")}), `member "input.x.npy": 4 bytes of numbers, f32[3] takes 12`},
		{"x.npz", archive(member{name: "a.npy", bytes: plain()}, member{name: "a.npy", bytes: plain()}), `member "a.npy": there are two of that name`},
		{"x.npz", archive(member{name: "a.npy", bytes: plain(), crc: 7}), `member "a.npy": checksum error`},
		{"x.npz", archive(member{name: "a.npy", bytes: plain(), flags: 1}), `member "a.npy": it is encrypted`},
		{"x.npz", archive(member{name: "a.npy", bytes: plain(), method: 12}), `member "a.npy": compression method 12 is not supported; those of np.savez and np.savez_compressed are`},
		{"x.npz", archive(member{name: "a.npy", bytes: plain(), total: 5}), `member "a.npy": 71 bytes, but 5 are declared`},
		{"x.npz", archive(member{name: "a.npy", bytes: plain(), total: 1 << 62}), `member "a.npy": the archive unpacks to more than 100 times its size; np.savez stores arrays as they are`},
		{"x.npz", archive(member{name: "a.npy", method: zip.Deflate, bytes: deflated(big), total: 200 << 20}), `member "a.npy": 1116 bytes cannot unpack to 209715200`},
		{"x.npz", archive(member{name: "a.npy", method: zip.Deflate, bytes: deflated(big), total: 1 << 20}), `member "a.npy": 1048504 bytes of numbers, f32[262144] takes 1048576`},
		{"x.npz", archive(member{name: "a.npy", method: zip.Deflate, bytes: deflated(big[:len(big)-4]), total: uint64(len(big))}), `member "a.npy": the data ends early`},
		{"x.npz", archive(member{name: "a.npy", method: zip.Deflate, bytes: deflated(big + "x"), total: uint64(len(big))}), `member "a.npy": its bytes are not those that the archive's directory declares`},
		{"x.npz", archive(member{name: "a.npy", method: zip.Deflate, bytes: "\xff\xff\xff\xff", total: 71}), `member "a.npy": flate: corrupt input before offset 1`},
		{"x.npz", shared(12), `member "k.npy": 71 bytes are more than the archive has for it`},

		{"x.safetensors", "1234567", "not a safetensors file: it is shorter than 8 bytes"},
		{"x.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}", "not a safetensors file: a header of 18446744073709551615 bytes in a file of 10"},
		{"x.safetensors", "\x03\x00\x00\x00\x00\x00\x00\x00{}", "not a safetensors file: a header of 3 bytes in a file of 10"},
		{"x.safetensors", safe("", ""), "header: not the JSON of a safetensors file"},
		{"x.safetensors", safe("[]", ""), "header: not the JSON of a safetensors file"},
		{"x.safetensors", safe(" {}", ""), "header: not the JSON of a safetensors file"},
		{"x.safetensors", safe("{}}", ""), "header: not the JSON of a safetensors file"},
		{"x.safetensors", safe(strings.Repeat("{\"a\":", 1<<20), ""), "header: not the JSON of a safetensors file"},
		{"x.safetensors", safe(`{"w":1}`, ""), `header: tensor "w": an object of dtype, shape and data_offsets expected`},
		{"x.safetensors", safe(`{"w":{}}`, ""), `header: tensor "w": it takes dtype, shape and data_offsets`},
		{"x.safetensors", safe(`{"w":{"shape":[],"data_offsets":[0,4]}}`, "1234"), `header: tensor "w": it takes dtype, shape and data_offsets`},
		{"x.safetensors", safe(`{"w":{"dtype":"F8_E8M0"}}`, ""), `header: tensor "w": dtype "F8_E8M0" is not supported`},
		{"x.safetensors", safe(`{"w":{"dtype":1}}`, ""), `header: tensor "w": dtype "1" is not supported`},
		{"x.safetensors", safe(`{"w":{"more":1}}`, ""), `header: tensor "w": key "more" is not known`},
		{"x.safetensors", safe(`{"w":{"dtype":"F32","dtype":"F32"}}`, ""), `header: tensor "w": key "dtype" stands twice`},
		{"x.safetensors", safe(`{"w":{"shape":[-1]}}`, ""), `header: tensor "w": shape should be a list of at most 64 sizes`},
		{"x.safetensors", safe(`{"w":{"shape":[1.0]}}`, ""), `header: tensor "w": shape should be a list of at most 64 sizes`},
		{"x.safetensors", safe(`{"w":{"shape":["1"]}}`, ""), `header: tensor "w": shape should be a list of at most 64 sizes`},
		{"x.safetensors", safe(`{"w":{"shape":[18446744073709551616]}}`, ""), `header: tensor "w": shape should be a list of at most 64 sizes`},
		{"x.safetensors", safe(`{"w":{"shape":[`+strings.Repeat("1,", 64)+`1]}}`, ""), `header: tensor "w": shape should be a list of at most 64 sizes`},
		{"x.safetensors", safe(`{"w":{"data_offsets":[0]}}`, ""), `header: tensor "w": data_offsets should be the begin and the end`},
		{"x.safetensors", safe(`{"w":{"data_offsets":[4,0]}}`, ""), `header: tensor "w": data_offsets should be the begin and the end`},
		{"x.safetensors", safe(`{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, "1234"), `header: tensor "w": 4 bytes of numbers, f32[2] takes 8`},
		{"x.safetensors", safe(`{"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, ""), `header: tensor "w": there cannot be a f32[4611686018427387904, 4]`},
		{"x.safetensors", safe(`{"w":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}}`, ""), `tensor "w": it ends at byte 4398046511104 of 0`},
		{"x.safetensors", safe(`{"w":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, "123"), `tensor "w": it begins at byte 1, the one before it ends at 0`},
		{"x.safetensors", safe(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, "123"), `tensor "b": it begins at byte 1, the one before it ends at 2`},
		{"x.safetensors", safe(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, "12"), `tensor "b": it begins at byte 0, the one before it ends at 2`},
		{"x.safetensors", safe(`{"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, "123"), `the tensors end at byte 2 of 3`},
		{"x.safetensors", safe(`{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"w":{}}`, ""), `header: key "w" stands twice`},
		{"x.safetensors", safe(`{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\u0077":{}}`, ""), `header: key "w" stands twice`},
		{"x.safetensors", safe(`{"__metadata__":[]}`, ""), `header: __metadata__ should be an object of strings`},
		{"x.safetensors", safe(`{"__metadata__":{"a":1}}`, ""), `header: __metadata__: "a" should be a string`},
		{"x.safetensors", safe(`{"`+strings.Repeat("long", 1000)+`":1}`, ""), `header: tensor "` + strings.Repeat("long", 20) + `"…: an object of dtype, shape and data_offsets expected`},
	} {
		t.Run(c.want, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile(c.file, []byte(c.bytes), 0o644); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := readFile(c.file)
			runtime.ReadMemStats(&after)
			if want := c.file + ": " + c.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if took, most := after.TotalAlloc-before.TotalAlloc, uint64(2<<20+8*len(c.bytes)); took > most {
				t.Errorf("%d bytes of memory for %d of file", took, len(c.bytes))
			}
		})
	}
}

func TestNotAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("folder.npz", 0o777); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"none.npz":         "none.npz: no such file or directory",
		"none.safetensors": "none.safetensors: no such file or directory",
		"folder.npz":       "folder.npz: is a folder, need a regular file",
	} {
		if _, err := readFile(path); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// TestBomb: an archive may be mostly zeros, but only up to a point.
func TestBomb(t *testing.T) {
	t.Chdir(t.TempDir())
	const each = 32 << 20
	dict := "{'descr': '|u1', 'fortran_order': False, 'shape': (33554432,), }"
	whole := npy(dict, strings.Repeat("\x00", each))
	packed, sum := deflated(whole), crc32.ChecksumIEEE([]byte(whole))
	var ms []member
	for i := range 12 {
		ms = append(ms, member{name: string(rune('a'+i)) + ".npy", method: zip.Deflate, bytes: packed, total: uint64(len(whole)), crc: sum})
	}
	for _, c := range []struct {
		members int
		want    string
	}{
		{2, ""},
		{12, `x.npz: member "j.npy": the archive unpacks to more than 100 times its size; np.savez stores arrays as they are`},
	} {
		if err := os.WriteFile("x.npz", []byte(archive(ms[:c.members]...)), 0o644); err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, err := ReadNPZ("x.npz"); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%d members: got %q, want %q", c.members, got, c.want)
		}
	}
}

// TestTruncated: no part of a good file is a good file.
func TestTruncated(t *testing.T) {
	s := set("a", graph.TensorOf(graph.Float32, []float32{1, 2, 3}, 3), "b", graph.NewTensor(graph.Int64))
	t.Chdir(t.TempDir())
	if err := WriteNPZ("x.npz", s); err != nil {
		t.Fatal(err)
	}
	if err := WriteSafetensors("x.safetensors", s, nil); err != nil {
		t.Fatal(err)
	}
	for file, read := range map[string]func([]byte) error{
		"x.npz":         func(b []byte) error { _, err := readNumPy(b, "x"); return err },
		"x.safetensors": func(b []byte) error { _, _, err := readSafetensors(b); return err },
	} {
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n := range whole {
			if read(whole[:n]) == nil {
				t.Errorf("%s: the first %d of %d bytes were read", file, n, len(whole))
			}
		}
	}
}
