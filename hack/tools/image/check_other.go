//go:build !linux

package main

func (o options) test(bool) error { return errNoTest }
