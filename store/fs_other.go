//go:build !linux && !darwin

package store

import "errors"

// networkFS cannot tell here.
func networkFS(string) string { return "" }

// freeBytes cannot tell here, so writes are refused only when the disk is full.
func freeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }
