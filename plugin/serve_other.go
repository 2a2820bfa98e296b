//go:build !unix

package plugin

import "runtime"

// Serve serves front to the host that started this process. Here it only says why not: the service listens on nothing
// but a socket in a private folder.
func Serve(Front) error {
	return refusal("memopt serve: needs unix sockets, which " + runtime.GOOS + " does not have in a form go-plugin uses")
}
