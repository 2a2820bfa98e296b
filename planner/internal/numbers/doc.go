// Package numbers has what searches over programs in numbers are made of: sets of small numbers, in words or in registers,
// forests of them, and a queue by priority.
package numbers
