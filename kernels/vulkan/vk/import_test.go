//go:build cgo && linux

package vk

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestImport: host memory is seen where it is, by copies in both directions, and is left alone at the end. What is not
// aligned is refused before the driver is asked.
func TestImport(t *testing.T) {
	_, d := open(t)
	align := int(d.Physical.ImportAlignment)
	if align == 0 {
		if _, err := d.Import(unsafe.Pointer(new(int)), 4096); !errors.Is(err, ErrImport) {
			t.Errorf("import where there is none: %v", err)
		}
		t.Skip("the device imports no host memory")
	}
	host, err := unix.Mmap(-1, 0, 4*align, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(host)
	before := d.Usage()
	at := func(off int) unsafe.Pointer { return unsafe.Pointer(&host[off]) }
	for _, bad := range []struct {
		at    unsafe.Pointer
		bytes int64
		says  string
	}{
		{at(64), int64(align), "address (remainder 64) and size (remainder 0) must be multiples"},
		{at(0), int64(align) - 4, "must be multiples"},
		{at(0), 0, "the memory is empty"},
		{at(0), -int64(align), "bytes"},
		{nil, int64(align), "bytes"},
		{at(0), 1 << 62, "exceed the largest allocation"},
	} {
		if _, err := d.Import(bad.at, bad.bytes); !errors.Is(err, ErrImport) || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%v, %d bytes: %v", bad.at, bad.bytes, err)
		}
	}
	if d.Usage() != before {
		t.Errorf("refusals asked the driver: %+v, was %+v", d.Usage(), before)
	}
	b, err := d.Import(at(align), 2*int64(align))
	if err != nil {
		t.Fatal(err)
	}
	if !b.Imported() || d.Usage().Imported != 2*int64(align) || d.Usage().Bytes != before.Bytes {
		t.Errorf("imported %v, usage %+v", b.Imported(), d.Usage())
	}
	near, err := d.NewBlock(int64(align), Near)
	if err != nil {
		t.Fatal(err)
	}
	for i := range align {
		host[align+i] = byte(i)
	}
	host[0], host[3*align] = 77, 78
	l, err := d.Record([]Command{
		{Kind: Copy, From: b, To: near, Bytes: int64(align)}, {Kind: Barrier},
		{Kind: Copy, From: near, To: b, ToAt: int64(align), Bytes: int64(align)}, {Kind: Barrier, Host: true},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Submit([]*List{l}, time.Minute); err != nil {
		t.Fatal(err)
	}
	for i := range align {
		if host[2*align+i] != byte(i) {
			t.Fatalf("byte %d came back as %d", i, host[2*align+i])
		}
	}
	if host[0] != 77 || host[3*align] != 78 {
		t.Error("what lies beside the import was written to")
	}
	d.FreeList(l)
	d.Free(near)
	d.Free(b)
	host[align] = 1 // is still there
	if d.Usage().Imported != 0 {
		t.Errorf("%d bytes are imported at the end", d.Usage().Imported)
	}
	// A driver that refuses leaves nothing behind.
	live := d.Live()
	d.Faults = func(call string) int32 {
		if strings.Contains(call, "host memory") {
			return -1000072003
		}
		return 0
	}
	if _, err := d.Import(at(0), int64(align)); !errors.Is(err, ErrImport) || d.Live() != live {
		t.Errorf("a driver's refusal: %v, %d objects, were %d", err, d.Live(), live)
	}
	d.Faults = nil
}
