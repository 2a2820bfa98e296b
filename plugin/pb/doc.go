// Package pb holds the messages and stubs of proto/memopt.proto. Everything in it but this file is generated.
package pb

//go:generate go -C .. run ./internal/gen
