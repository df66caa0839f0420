//go:build !linux

package main

func (o options) buildAndTest() error { return errNoTest }
