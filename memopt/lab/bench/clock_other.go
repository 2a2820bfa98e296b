//go:build !unix

package bench

import (
	"os"
	"time"
)

// processTime is unknown here; only wall time is available.
func processTime() time.Duration { return 0 }

// mostMemory is unknown here.
func mostMemory(*os.ProcessState) int64 { return 0 }
