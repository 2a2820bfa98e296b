package tensorfile

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"

	"memopt/memopt/graph"
	"memopt/memopt/whole"
)

// ReadNPZ reads a NumPy archive, or a single .npy array under the name of its
// file. Which of them it is shows in its first bytes.
func ReadNPZ(path string) (*Set, error) {
	f, size, err := open(path)
	if err != nil {
		return nil, named(path, err)
	}
	defer f.Close()
	base := filepath.Base(path)
	s, err := readNumPy(f, size, strings.TrimSuffix(base, filepath.Ext(base)))
	return s, named(path, err)
}

// readNumPy reads an archive, or an array under the name alone.
func readNumPy(r io.ReaderAt, size int64, alone string) (*Set, error) {
	begin := make([]byte, min(size, int64(len(npyMagic))))
	if err := readAt(r, begin, 0); err != nil {
		return nil, err
	}
	switch {
	case string(begin) == npyMagic:
		x, err := readNPY(bufio.NewReader(io.NewSectionReader(r, 0, size)), size)
		if err != nil {
			return nil, err
		}
		s := &Set{}
		return s, s.add(alone, x)
	case bytes.HasPrefix(begin, []byte("PK")):
		return readArchive(r, size)
	}
	return nil, errors.New("not a NumPy file: it begins neither as .npz nor as .npy does")
}

// What deflated members may grow to, all together. Deflate turns one byte into
// at most 1032; an archive of real numbers comes nowhere near, one of masks and
// zeros can, so small ones may do as they like.
const (
	maxRatio  = 1032
	freeBytes = 256 << 20
	wideRatio = 100
)

func readArchive(r io.ReaderAt, size int64) (*Set, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("not a whole .npz archive: %s", strings.TrimPrefix(err.Error(), "zip: "))
	}
	s := &Set{}
	left := uint64(size)                               // bytes that no member has claimed yet
	room := uint64(freeBytes) + wideRatio*uint64(size) // what may still be unpacked
	for _, f := range z.File {
		fail := func(err error) error { return fmt.Errorf("member %s: %w", quote(f.Name), err) }
		// Members that share bytes could unpack to any amount.
		if f.CompressedSize64 > left {
			return nil, fail(fmt.Errorf("%d bytes are more than the archive has for it", f.CompressedSize64))
		}
		left -= f.CompressedSize64
		if f.UncompressedSize64 > room {
			return nil, fail(fmt.Errorf("the archive unpacks to more than %d times its size; np.savez stores arrays as they are", wideRatio))
		}
		room -= f.UncompressedSize64
		name, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok {
			return nil, fail(errors.New("not an array: the name should end in .npy"))
		}
		x, err := readMember(f)
		if err != nil {
			return nil, fail(err)
		}
		if err := s.add(name, x); err != nil {
			return nil, fail(err)
		}
	}
	return s, nil
}

func readMember(f *zip.File) (*graph.Tensor, error) {
	packed, total := f.CompressedSize64, f.UncompressedSize64
	switch {
	case f.Flags&1 != 0:
		return nil, errors.New("it is encrypted")
	case f.Method == zip.Store && packed != total:
		return nil, fmt.Errorf("%d bytes, but %d are declared", packed, total)
	case f.Method == zip.Deflate && total/maxRatio > packed:
		return nil, fmt.Errorf("%d bytes cannot unpack to %d", packed, total)
	}
	r, err := f.Open()
	if errors.Is(err, zip.ErrAlgorithm) {
		return nil, fmt.Errorf("compression method %d is not supported; those of np.savez and np.savez_compressed are", f.Method)
	} else if err != nil {
		return nil, damage(err)
	}
	defer r.Close()
	b := bufio.NewReader(r)
	x, err := readNPY(b, int64(total))
	if err != nil {
		return nil, damage(err)
	}
	// The checksum is compared where the member ends.
	if _, err := b.ReadByte(); err != io.EOF {
		return nil, damage(err)
	}
	return x, nil
}

// damage says in our words what archive/zip found in a member.
func damage(err error) error {
	if errors.Is(err, zip.ErrFormat) {
		return errors.New("its bytes are not those that the archive's directory declares")
	}
	if s, ok := strings.CutPrefix(err.Error(), "zip: "); ok {
		return errors.New(s)
	}
	return short(err)
}

// WriteNPZ writes a NumPy archive that np.load reads. Arrays are stored as they
// are, in the order of the names. There is no bfloat16 in NumPy.
func WriteNPZ(path string, s *Set) error {
	if err := s.check(); err != nil {
		return named(path, err)
	}
	return named(path, whole.Write(path, func(w io.Writer) error { return writeArchive(w, s) }))
}

func writeArchive(w io.Writer, s *Set) error {
	z := zip.NewWriter(w)
	for _, name := range s.Names {
		x := s.Tensors[name]
		prefix, err := npyPrefix(x)
		if err != nil {
			return fmt.Errorf("tensor %s: %w", quote(name), err)
		}
		// Raw, so that sizes and checksum stand before the bytes: readers that
		// walk the archive from its front rely on them.
		size := uint64(len(prefix) + len(x.Bytes))
		h := &zip.FileHeader{
			Name:               name + ".npy",
			Method:             zip.Store,
			ReaderVersion:      20,
			CRC32:              crc32.Update(crc32.ChecksumIEEE(prefix), crc32.IEEETable, x.Bytes),
			CompressedSize64:   size,
			UncompressedSize64: size,
		}
		if !isASCII(name) {
			h.Flags |= 0x800 // the name is UTF-8
		}
		m, err := z.CreateRaw(h)
		if err != nil {
			return fmt.Errorf("tensor %s: %s", quote(name), strings.TrimPrefix(err.Error(), "zip: "))
		}
		if _, err := m.Write(prefix); err != nil {
			return err
		}
		if _, err := m.Write(x.Bytes); err != nil {
			return err
		}
	}
	return z.Close()
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}
