package tensorfile

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"

	"memopt/internal/graph"
)

// ReadNPZ reads a NumPy archive, or a single .npy array under the name of its
// file, depending on its first bytes.
func ReadNPZ(path string) (*Set, error) {
	base := filepath.Base(path)
	return read(path, func(b []byte) (*Set, error) { return readNumPy(b, strings.TrimSuffix(base, filepath.Ext(base))) })
}

// readNumPy reads an archive, or an array under the name alone.
func readNumPy(b []byte, alone string) (*Set, error) {
	switch {
	case bytes.HasPrefix(b, []byte(npyMagic)):
		view, x, err := readNPY(b)
		if err != nil {
			return nil, err
		}
		s := &Set{}
		return s, s.add(alone, view, x)
	case bytes.HasPrefix(b, []byte("PK")):
		return readArchive(b)
	}
	return nil, errors.New("not a NumPy file: it begins neither as .npz nor as .npy does")
}

// Limits on the total size of decompressed members: freeBytes, and wideRatio for each
// byte of the file. Deflate expands by at most 1032; archives of real numbers stay far
// below, but small ones of masks and zeros may come close.
const (
	maxRatio  = 1032
	freeBytes = 256 << 20
	wideRatio = 100
)

func readArchive(b []byte) (*Set, error) {
	size := len(b)
	z, err := zip.NewReader(bytes.NewReader(b), int64(size))
	if err != nil {
		return nil, fmt.Errorf("not a whole .npz archive: %s", strings.TrimPrefix(err.Error(), "zip: "))
	}
	s := &Set{}
	left := uint64(size)                               // bytes that belong to no member yet
	room := uint64(freeBytes) + wideRatio*uint64(size) // bytes that may still be decompressed
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
		view, x, err := readMember(b, f)
		if err != nil {
			return nil, fail(err)
		}
		if err := s.add(name, view, x); err != nil {
			return nil, fail(err)
		}
	}
	return s, nil
}

// readMember reads an array of an archive. It is a view if it is stored uncompressed.
func readMember(all []byte, f *zip.File) (view, x *graph.Tensor, err error) {
	packed, total := f.CompressedSize64, f.UncompressedSize64
	switch {
	case f.Flags&1 != 0:
		return nil, nil, errors.New("it is encrypted")
	case f.Method == zip.Store && packed != total:
		return nil, nil, fmt.Errorf("%d bytes, but %d are declared", packed, total)
	case f.Method == zip.Deflate && total/maxRatio > packed:
		return nil, nil, fmt.Errorf("%d bytes cannot unpack to %d", packed, total)
	}
	r, err := f.Open()
	if errors.Is(err, zip.ErrAlgorithm) {
		return nil, nil, fmt.Errorf("compression method %d is not supported; those of np.savez and np.savez_compressed are", f.Method)
	} else if err != nil {
		return nil, nil, damage(err)
	}
	defer r.Close()
	if f.Method == zip.Store {
		// Read once for the checksum, which is compared where the member ends.
		if _, err := io.Copy(io.Discard, r); err != nil {
			return nil, nil, damage(err)
		}
		at, err := f.DataOffset()
		if err != nil {
			return nil, nil, damage(err)
		}
		if view, x, err = readNPY(all[at : at+int64(total) : at+int64(total)]); err != nil {
			return nil, nil, damage(err)
		}
		return view, x, nil
	}
	b, err := unpacked(r, total)
	if err != nil {
		return nil, nil, damage(err)
	}
	if _, x, err = readNPY(b); err != nil {
		return nil, nil, damage(err)
	}
	return nil, x, nil
}

// unpacked decompresses a member. It checks the array's header against the declared size
// before it allocates that.
func unpacked(r io.Reader, total uint64) ([]byte, error) {
	var head bytes.Buffer
	h, err := readNPYHeader(io.TeeReader(r, &head), int64(total))
	if err != nil {
		return nil, err
	}
	if size, ok := byteSize(h.dtype, h.shape); !ok {
		return nil, fmt.Errorf("there cannot be a %s", typeText(h.dtype, h.shape))
	} else if size != int64(total)-h.length {
		return nil, fmt.Errorf("%d bytes of numbers, %s takes %d", int64(total)-h.length, typeText(h.dtype, h.shape), size)
	}
	b := make([]byte, total)
	n := copy(b, head.Bytes())
	if _, err := io.ReadFull(r, b[n:]); err != nil {
		return nil, err
	}
	// The checksum is compared where the member ends.
	if n, err := r.Read(make([]byte, 1)); n > 0 {
		return nil, zip.ErrFormat
	} else if err != io.EOF {
		return nil, err
	}
	return b, nil
}

// damage replaces archive/zip's errors about a member by clearer ones.
func damage(err error) error {
	if errors.Is(err, zip.ErrFormat) {
		return errors.New("its bytes are not those that the archive's directory declares")
	}
	if s, ok := strings.CutPrefix(err.Error(), "zip: "); ok {
		return errors.New(s)
	}
	return short(err)
}

// WriteNPZ writes a NumPy archive that np.load reads. Arrays are stored uncompressed, in
// the order of the names. NumPy has no bfloat16.
func WriteNPZ(path string, s *Set) error {
	if err := s.check(); err != nil {
		return named(path, err)
	}
	return replace(path, func(w io.Writer) error { return writeArchive(w, s) })
}

func writeArchive(w io.Writer, s *Set) error {
	z := zip.NewWriter(w)
	for _, name := range s.Names {
		prefix, err := npyPrefix(s.Tensors[name])
		if err != nil {
			return fmt.Errorf("tensor %s: %w", quote(name), err)
		}
		// CreateRaw puts sizes and checksum before the bytes, as readers that stream the
		// archive need. For that the numbers are read twice.
		size := uint64(len(prefix)) + uint64(s.size(name))
		sum := crc32.NewIEEE()
		sum.Write(prefix)
		if err := s.Write(sum, name); err != nil {
			return err
		}
		h := &zip.FileHeader{
			Name:               name + ".npy",
			Method:             zip.Store,
			ReaderVersion:      20,
			CRC32:              sum.Sum32(),
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
		if err := s.Write(m, name); err != nil {
			return err
		}
	}
	return z.Close()
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}
