package vulkan

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"memopt/internal/weights"
	"memopt/kernels/vulkan/vk"
)

// Context is an open Vulkan device with its pipelines. Devices and buffers of a context can use each other's memory;
// submissions take turns.
type Context struct {
	mu        sync.Mutex
	gpu       *vk.Device
	name      string
	users     int
	pipelines map[string]*vk.Pipeline
	weights   weights.Store[*vk.Block]
	compiled  compiled
	bounce    *vk.Block             // staging block for buffers that are not host-visible
	dead      atomic.Pointer[error] // set once the device is lost or a submission timed out
}

// contexts has the shared contexts of this process.
var contexts struct {
	sync.Mutex
	all []*Context
}

// Share returns the shared context of a device in this process, which it opens if necessary. The caller must close it.
func Share(p *vk.Physical) (*Context, error) {
	contexts.Lock()
	defer contexts.Unlock()
	for _, c := range contexts.all {
		if c.gpu.Physical.Index == p.Index && c.refused() == nil {
			c.users++
			return c, nil
		}
	}
	c, err := newContext(p)
	if err != nil {
		return nil, err
	}
	c.gpu.Addressed = p.Addresses // schedules are not known yet
	contexts.all = append(contexts.all, c)
	return c, nil
}

func newContext(p *vk.Physical) (*Context, error) {
	i, err := load()
	if err != nil {
		return nil, fmt.Errorf("vulkan: %w", err)
	}
	c := &Context{users: 1, pipelines: map[string]*vk.Pipeline{}, name: fmt.Sprintf("vulkan:%d %s (%s, %s)", p.Index, p.Name, p.Kind, p.Driver)}
	if c.gpu, err = i.Open(p); err != nil {
		return nil, fmt.Errorf("vulkan: %w", err)
	}
	c.gpu.Hidden = os.Getenv(hiddenVariable) != ""
	c.readPipelines()
	return c, nil
}

// refused returns the error that made the context unusable, if any.
func (c *Context) refused() error {
	if wrong := c.dead.Load(); wrong != nil {
		return fmt.Errorf("vulkan: %w", *wrong)
	}
	return nil
}

// hold adds a reference.
func (c *Context) hold() {
	contexts.Lock()
	defer contexts.Unlock()
	c.users++
}

// Close releases a reference, and closes the device with the last one.
func (c *Context) Close() {
	contexts.Lock()
	defer contexts.Unlock()
	if c.users--; c.users > 0 {
		return
	}
	for i, o := range contexts.all {
		if o == c {
			contexts.all = append(contexts.all[:i], contexts.all[i+1:]...)
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writePipelines()
	for _, p := range c.pipelines {
		c.gpu.FreePipeline(p)
	}
	c.gpu.Free(c.bounce)
	if n := c.gpu.Live(); n != 0 {
		panic(fmt.Sprintf("vulkan: %d objects were not destroyed before the device", n))
	}
	c.gpu.Close()
	c.gpu = nil
}

// Held is the bytes of all blocks of the context.
func (c *Context) Held() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gpu.Usage().Bytes
}

// Live is the number of Vulkan objects of the context.
func (c *Context) Live() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gpu.Live()
}

// Name describes the device.
func (c *Context) Name() string { return c.name }

// Unified reports whether the device shares the host's memory.
func (c *Context) Unified() bool { return c.gpu.Physical.Unified() && !c.gpu.Hidden }

// Driver returns the heap usage and budget of this process as the driver reports them.
func (c *Context) Driver() (usage, budget int64, ok bool) { return driver(c.gpu) }

// ImportAlignment is the required alignment of address and size of imported host memory; 0 if import is not supported.
func (c *Context) ImportAlignment() int64 { return int64(c.gpu.Physical.ImportAlignment) }

// fail records errors that make the context unusable.
func (c *Context) fail(err error) {
	if errors.Is(err, vk.ErrDeviceLost) || errors.Is(err, vk.ErrTimeout) {
		c.dead.CompareAndSwap(nil, &err)
	}
}

// Weights returns statistics of the weights that programs share.
func (c *Context) Weights() weights.StoreStats { return c.weights.Stats() }

// Buffer is memory of a context: device memory, or imported host memory. Devices of the context can read inputs from it and
// write outputs to it in place.
type Buffer struct {
	context *Context
	block   *vk.Block
	bytes   int64
	mu      sync.Mutex
	users   int
}

// NewBuffer allocates zeroed device memory.
func (c *Context) NewBuffer(bytes int64) (*Buffer, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("vulkan: a buffer cannot have %d bytes", bytes)
	}
	return c.newBuffer(bytes, func() (*vk.Block, error) {
		b, err := c.gpu.NewBlock(bytes, vk.Near)
		if err != nil {
			return nil, err
		}
		if err := c.carry(vk.Command{Kind: vk.Fill, To: b, Bytes: vk.WholeWords(max(bytes, 1))}, time.Minute); err != nil {
			c.gpu.Free(b)
			return nil, err
		}
		return b, nil
	})
}

func (c *Context) newBuffer(bytes int64, make func() (*vk.Block, error)) (*Buffer, error) {
	c.hold()
	c.mu.Lock()
	err := c.refused()
	var b *vk.Block
	if err == nil {
		if b, err = make(); err != nil {
			err = fmt.Errorf("vulkan: %s: %w", c.gpu.Physical.Name, err)
		}
	}
	c.mu.Unlock()
	if err != nil {
		c.Close()
		return nil, err
	}
	return &Buffer{context: c, block: b, bytes: bytes, users: 1}, nil
}

// Import makes host memory accessible to the device without a copy. Address and size must be multiples of ImportAlignment,
// and the memory must stay mapped until the buffer is dropped. It must not be memory of the Go heap.
func (c *Context) Import(host []byte) (*Buffer, error) {
	return c.newBuffer(int64(len(host)), func() (*vk.Block, error) {
		return c.gpu.Import(unsafe.Pointer(unsafe.SliceData(host)), int64(len(host)))
	})
}

// Len is the size in bytes.
func (b *Buffer) Len() int64 { return b.bytes }

// Imported reports whether the memory is imported host memory.
func (b *Buffer) Imported() bool { return b.block.Imported() }

// Bytes is the mapped memory, or nil if it is not host-visible.
func (b *Buffer) Bytes() []byte {
	if b.block.Mapped() == nil {
		return nil
	}
	return unsafe.Slice((*byte)(b.block.Mapped()), b.bytes)
}

// Retain adds a reference.
func (b *Buffer) Retain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users <= 0 {
		panic("vulkan: a buffer is used after its last Drop")
	}
	b.users++
}

// Drop releases a reference, and frees the memory with the last one.
func (b *Buffer) Drop() {
	b.mu.Lock()
	b.users--
	left := b.users
	b.mu.Unlock()
	switch {
	case left > 0:
		return
	case left < 0:
		panic("vulkan: a buffer is dropped once too often")
	}
	b.context.mu.Lock()
	b.context.gpu.Free(b.block)
	b.context.mu.Unlock()
	b.context.Close()
}

// ReadAt copies bytes of the buffer to host memory.
func (b *Buffer) ReadAt(to []byte, at int64) error { return b.move(to, at, false) }

// WriteAt copies bytes of host memory to the buffer.
func (b *Buffer) WriteAt(from []byte, at int64) error { return b.move(from, at, true) }

func (b *Buffer) move(host []byte, at int64, in bool) error {
	if at < 0 || at > b.bytes || int64(len(host)) > b.bytes-at {
		return fmt.Errorf("vulkan: %d bytes at %d are outside of a buffer of %d", len(host), at, b.bytes)
	}
	c := b.context
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen := b.Bytes(); seen != nil {
		if in {
			copy(seen[at:], host)
		} else {
			copy(host, seen[at:])
		}
		return nil
	}
	if err := c.refused(); err != nil {
		return err
	}
	if c.bounce == nil {
		var err error
		if c.bounce, err = c.gpu.NewBlock(bounceBytes, vk.Host); err != nil {
			return fmt.Errorf("vulkan: %w", err)
		}
	}
	bounce := unsafe.Slice((*byte)(c.bounce.Mapped()), bounceBytes)
	for len(host) > 0 {
		n := min(int64(len(host)), bounceBytes)
		command := vk.Command{Kind: vk.Copy, From: b.block, FromAt: at, To: c.bounce, Bytes: n}
		if in {
			copy(bounce, host[:n])
			command = vk.Command{Kind: vk.Copy, From: c.bounce, To: b.block, ToAt: at, Bytes: n}
		}
		if err := c.carry(command, 10*time.Minute); err != nil {
			return fmt.Errorf("vulkan: %w", err)
		}
		if !in {
			copy(host[:n], bounce)
		}
		host, at = host[n:], at+n
	}
	return nil
}

// carry submits a single copy or fill. The lock must be held.
func (c *Context) carry(command vk.Command, timeout time.Duration) error {
	l, err := c.gpu.Record([]vk.Command{{Kind: vk.Barrier, Host: true}, command, {Kind: vk.Barrier, Host: true}}, nil)
	if err != nil {
		return err
	}
	defer c.gpu.FreeList(l)
	err = c.gpu.Submit([]*vk.List{l}, timeout)
	c.fail(err)
	return err
}
