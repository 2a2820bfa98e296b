package memopt

import (
	"fmt"

	"memopt/configs"
)

// Fits refuses what the machine has no memory for: better a line now than a
// process that is killed later. What is the subject of the line, and help
// says what would fit.
func Fits(bytes int64, what, help string) error {
	if most := machineMemory(); most > 0 && bytes > most {
		return codedError{fmt.Errorf("%s takes %s of memory, and this process can have %s%s",
			what, configs.FormatBytes(bytes), configs.FormatBytes(most), help), ExitCannot}
	}
	return nil
}
