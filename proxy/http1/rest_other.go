//go:build !linux

package http1

import "errors"

const canRest = false

type dorm struct{}

func openDorm() (*dorm, error)     { return nil, errors.ErrUnsupported }
func (*dorm) add(fd int) error     { return errors.ErrUnsupported }
func (*dorm) remove(fd int)        {}
func (*dorm) wait() ([]int, error) { return nil, errors.ErrUnsupported }
func (*dorm) close()               {}
