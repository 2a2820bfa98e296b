package compare

import "fmt"

// Rounding is how far one step that keeps rounded values is from the exact one.
type Rounding struct {
	Type       string
	Values     int // how many are rounded
	LossRelErr float64
	Worst      Of // the gradient that differs the most
}

// String is the line that a report has.
func (l *Rounding) String() string {
	return fmt.Sprintf("lossy: %d activations are kept as %s; in one step the gradient of %q differs the most from the exact one, by %.2e (relative), the loss by %.2e",
		l.Values, l.Type, l.Worst.Name, l.Worst.RelErr, l.LossRelErr)
}
