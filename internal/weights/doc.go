// Package weights owns the bytes of a model's weights.
//
// A Block is bytes with an owner and a use count. Where the bytes are is its
// Kind: pages of a mapped file or the Go heap. Whoever keeps a block calls Retain, whoever is done calls
// Drop, and the last Drop gives the memory back: a tied weight is one block with
// two uses. Nothing here has an address that could be written to a file; what is
// saved is a name, an offset and a length.
//
//	f, err := weights.OpenFile("model.onnx_data")
//	b, err := f.Block(offset, length)
//	f.Close()                  // the mapping lives on until the last block is dropped
//	raw, err := b.Bytes()      // the file's own pages, nothing copied
//	b.ReadAt(staging, 0)       // or read away, in pieces
//	b.ReleasePages()           // and let go of the pages that the read brought in
//	b.Drop()
//
// Files are mapped privately and read-only, so their pages are clean: the system
// counts them as RssFile and takes them back when it likes. They are not
// anonymous memory, and a reader who looks only at the resident size sees no gain
// from mapping. Another process may truncate, rewrite or replace a file while it
// is in use: Guard makes an error of a page that is gone, and Unchanged finds the
// other changes once reading is done.
//
// A copy is never made silently. Snapshot tells what is held, by kind, and how
// many bytes had to be copied, because they lie unaligned in their file or because the
// file could not be mapped.
//
// ExternalPath is the gate for file names that come out of a model: they are
// relative and stay in the model's folder, with room for the symbolic links of
// model caches.
package weights
