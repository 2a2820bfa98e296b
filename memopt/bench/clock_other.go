//go:build !unix

package bench

import (
	"os"
	"time"
)

// processTime is not known here; wall time is all there is.
func processTime() time.Duration { return 0 }

// mostMemory is not known here.
func mostMemory(*os.ProcessState) int64 { return 0 }
