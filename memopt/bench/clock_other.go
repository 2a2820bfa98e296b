//go:build !unix

package bench

import "time"

// processTime is not known here; wall time is all there is.
func processTime() time.Duration { return 0 }
