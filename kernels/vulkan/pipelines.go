package vulkan

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"

	"memopt/internal/whole"
	"memopt/kernels/vulkan/vk"
)

// What drivers compile is kept in a file for each device and driver, so that the next process compiles
// it faster. Mesa's lavapipe has a cache of its own and keeps nothing in this one, so CPU drivers have no file.

// pipelinesVariable is the folder of these files, for tests and for those who want them elsewhere.
const pipelinesVariable = "MEMOPT_VULKAN_PIPELINES"

// compiled is the file of a context, and what it had when it was read.
type compiled struct {
	path string // "" where nothing is kept
	had  []byte
}

// readPipelines gives the driver what was kept. A file that is not whole is left out: drivers look at its head alone.
// Without a cache everything works, so nothing here is an error.
func (c *Context) readPipelines() {
	p, folder := c.gpu.Physical, os.Getenv(pipelinesVariable)
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil || p.Kind == vk.CPU {
			return
		}
		folder = filepath.Join(cache, "memopt", "pipelines")
	}
	path := filepath.Join(folder, plainName(p.Name, p.Driver))
	text, err := os.ReadFile(path)
	if sum := sha256.Size; err == nil && len(text) > sum {
		if have := sha256.Sum256(text[sum:]); bytes.Equal(have[:], text[:sum]) {
			c.compiled.had = text[sum:]
		}
	}
	if c.gpu.KeepPipelines(c.compiled.had) == nil {
		c.compiled.path = path
	}
}

// writePipelines keeps what was compiled, if that is more than there was.
func (c *Context) writePipelines() {
	if c.compiled.path == "" || len(c.pipelines) == 0 {
		return
	}
	data, err := c.gpu.KeptPipelines()
	if err != nil || len(data) == 0 || bytes.Equal(data, c.compiled.had) {
		return
	}
	if os.MkdirAll(filepath.Dir(c.compiled.path), 0o700) != nil {
		return
	}
	sum := sha256.Sum256(data)
	whole.Bytes(c.compiled.path, append(sum[:], data...))
}
