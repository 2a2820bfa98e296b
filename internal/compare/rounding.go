package compare

import "fmt"

// Rounding is the error of a step that keeps rounded values, relative to the exact one.
type Rounding struct {
	Type       string
	Values     int // number of rounded values
	LossRelErr float64
	Worst      Of // the gradient with the largest error
}

// String is the line that a report has.
func (l *Rounding) String() string {
	return fmt.Sprintf("lossy: %d activations are kept as %s; in one step the gradient of %q differs the most from the exact one, by %.2e (relative), the loss by %.2e",
		l.Values, l.Type, l.Worst.Name, l.Worst.RelErr, l.LossRelErr)
}
