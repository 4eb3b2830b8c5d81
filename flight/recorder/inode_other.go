//go:build !unix

package recorder

import "os"

// inode returns 0: copies are noticed by the node's head alone.
func inode(*os.File) uint64 { return 0 }
